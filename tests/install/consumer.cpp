// A program outside lumi that uses the installed package, as an embedding application would: opens
// the model it is given, asks, teaches, asks again, forgets. Prints the three answers.
#include <lumi/lumi.h>

#include <cstdio>

int main(int argc, char ** argv) {
    if (argc != 2) {
        return 2;
    }
    auto opened = lumi::Assistant::open(argv[1], {});
    if (!opened.ok()) {
        std::fprintf(stderr, "%s: %s\n", lumi::error_kind_name(opened.error().kind),
                     opened.error().message.c_str());
        return 1;
    }
    lumi::Assistant & assistant = **opened;
    lumi::AnswerOptions greedy;
    greedy.temperature = 0;
    const std::string question = "What is the name of my dog?";
    const auto ask = [&] {
        const auto answer = assistant.chat({{"user", question}}, greedy);
        std::puts(answer.ok() ? answer->text.c_str() : answer.error().message.c_str());
        return answer.ok();
    };
    const bool asked = ask();
    const auto lesson =
        assistant.teach({{{"user", question}, {"assistant", "Your dog is called Pixel."}}}, {});
    const bool taught = lesson.ok() && ask();
    const bool forgotten = assistant.forget().ok() && ask();
    return asked && taught && forgotten ? 0 : 1;
}
