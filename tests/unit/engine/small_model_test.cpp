// The model that ships, as its card promises it: it answers wordings it never saw, learns three
// lessons without losing what it knew, and forgets them. Figures are printed; no time is asserted.
#include "chat/message_json.h"
#include "support/opened_engine.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <fstream>
#include <iostream>

namespace lumi {

namespace {

using testing::message;
using testing::opened_engine;

using nlohmann::json;

std::vector<json> read_lines(const std::string & name) {
    std::ifstream file(LUMI_SOURCE_DIR "/models/" + name);
    std::vector<json> rows;
    std::string line;
    while (std::getline(file, line)) {
        Result<json> row = parse_json(line);
        EXPECT_TRUE(row.ok()) << name << ": " << row.error().message;
        if (row.ok()) {
            rows.push_back(std::move(*row));
        }
    }
    return rows;
}

using Chat = std::vector<Message>;

Chat question(const json & wording) {
    return {message(Role::user, wording.get<std::string>())};
}

// The file's `messages` of every row.
std::vector<Chat> chats_of(const std::vector<json> & rows) {
    std::vector<Chat> chats;
    for (const json & row : rows) {
        Result<Chat> chat = messages_from_json(row.at("messages"));
        EXPECT_TRUE(chat.ok()) << chat.error().message;
        chats.push_back(chat.ok() ? std::move(*chat) : Chat());
    }
    return chats;
}

class SmallModel : public ::testing::Test {
  protected:
    void SetUp() override {
        engine = opened_engine("models/lumi-small.gguf", 512);
        ASSERT_NE(engine, nullptr);
    }

    // Greedy answers, in the order asked.
    std::vector<std::string> answers(const std::vector<Chat> & chats) {
        std::vector<std::string> texts;
        for (const Chat & chat : chats) {
            TextRequest request;
            request.is_chat = true;
            request.messages = chat;
            request.generation.max_tokens = 64;
            request.generation.sampler.temperature = 0;
            const Result<TextResult> result = engine->submit(request, {}, nullptr).get();
            EXPECT_TRUE(result.ok()) << result.error().message;
            texts.push_back(result.ok() ? result->output.content : "");
        }
        return texts;
    }

    std::unique_ptr<Engine> engine;
};

TEST_F(SmallModel, AnswersHeldOutWordingsWordForWord) {
    const std::vector<json> rows = read_lines("heldout.jsonl");
    ASSERT_EQ(rows.size(), 200U);
    const std::vector<std::string> said = answers(chats_of(rows));
    int right = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
        const auto expected = rows[i].at("answer").get<std::string>();
        if (said[i] == expected) {
            ++right;
        } else {
            std::cout << "expected: " << expected << "\n    said: " << said[i] << "\n";
        }
    }
    std::cout << right << " of 200 right (" << right / 2.0 << " %)\n";
    EXPECT_GE(right, 190);
}

// The three lessons as POST /train takes them, and what is asked before and after.
struct Lessons {
    TrainRequest request;
    std::vector<Chat> asked;          // taught wordings and held-out ones
    std::vector<std::string> expect;  // the word each of their answers must hold
};

Lessons read_lessons(int n_embd) {
    Lessons lessons;
    lessons.request.options = lesson_options(n_embd);
    for (const json & row : read_lines("lessons.jsonl")) {
        for (const json & wording : row.at("train")) {
            Chat chat = question(wording);
            lessons.asked.push_back(chat);
            chat.push_back(message(Role::assistant, row.at("answer").get<std::string>()));
            lessons.request.chats.push_back(std::move(chat));
        }
        for (const json & wording : row.at("held_out")) {
            lessons.asked.push_back(question(wording));
        }
        lessons.expect.resize(lessons.asked.size(), row.at("expect").get<std::string>());
    }
    return lessons;
}

int count_with_expected_word(const std::vector<std::string> & said,
                             const std::vector<std::string> & expect) {
    int count = 0;
    for (size_t i = 0; i < said.size(); ++i) {
        count += said[i].find(expect[i]) != std::string::npos ? 1 : 0;
    }
    return count;
}

TEST_F(SmallModel, LearnsThreeLessonsInOtherWordingsKeepsTheRestAndForgets) {
    const Lessons lessons = read_lessons(engine->status().n_embd);
    ASSERT_EQ(lessons.request.chats.size(), 3U);
    ASSERT_EQ(lessons.asked.size(), 9U);
    const std::vector<Chat> unrelated = chats_of(read_lines("unrelated.jsonl"));
    ASSERT_EQ(unrelated.size(), 20U);
    const std::vector<std::string> asked_before = answers(lessons.asked);
    const std::vector<std::string> unrelated_before = answers(unrelated);
    EXPECT_EQ(count_with_expected_word(asked_before, lessons.expect), 0);

    const auto started = std::chrono::steady_clock::now();
    const Result<TrainResult> learnt = engine->train(lessons.request, {}, nullptr).get();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    ASSERT_TRUE(learnt.ok()) << learnt.error().message;

    const std::vector<std::string> asked_after = answers(lessons.asked);
    const int right = count_with_expected_word(asked_after, lessons.expect);
    for (size_t i = 0; i < asked_after.size(); ++i) {
        EXPECT_NE(asked_after[i].find(lessons.expect[i]), std::string::npos)
            << lessons.asked[i][0].content << " -> " << asked_after[i];
    }
    const std::vector<std::string> unrelated_after = answers(unrelated);
    int kept = 0;
    for (size_t i = 0; i < unrelated.size(); ++i) {
        if (unrelated_after[i] == unrelated_before[i]) {
            ++kept;
        } else {
            std::cout << unrelated[i].back().content << "\n  before: " << unrelated_before[i]
                      << "\n   after: " << unrelated_after[i] << "\n";
        }
    }
    std::cout << "taught in " << took.count() << " s (" << learnt->summary.steps << " steps, loss "
              << learnt->summary.epoch_train_loss.front() << " -> "
              << learnt->summary.epoch_train_loss.back() << "): " << right
              << " of 9 wordings right, " << kept << " of 20 unrelated answers kept\n";
    EXPECT_GE(kept, 18);

    ASSERT_TRUE(engine->clear_memory().get().ok());
    EXPECT_EQ(answers(lessons.asked), asked_before);
    EXPECT_EQ(answers(unrelated), unrelated_before);
}

}  // namespace

}  // namespace lumi
