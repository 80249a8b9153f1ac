// What a run leaves for other programs to read: lines, TensorBoard's records and a picture.
#include "base/crc32c.h"
#include "support/temp_dir.h"
#include "train/loss_curve.h"
#include "train/metrics.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

namespace lumi {

namespace {

std::string content(const std::string & path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TrainProgress event(TrainProgress::Event kind, int step, double loss) {
    TrainProgress p;
    p.event = kind;
    p.step = step;
    p.total_steps = 10;
    p.epoch = 1;
    p.loss = loss;
    p.learning_rate = 1e-4;
    return p;
}

constexpr auto kStep = TrainProgress::Event::step;
constexpr auto kValidation = TrainProgress::Event::validation;

void write(const std::string & path, bool resumed, int resumed_step,
           std::initializer_list<TrainProgress> events) {
    const auto sink = open_metrics_file(path, resumed, resumed_step);
    ASSERT_TRUE(sink.ok()) << sink.error().message;
    for (const TrainProgress & p : events) {
        ASSERT_TRUE((*sink)->add(p).ok());
    }
}

TEST(MetricsFile, JsonLinesParseAndCsvHasTheSameColumns) {
    const TempDir dir;
    write(dir.file("m.jsonl"), false, 0, {event(kValidation, 0, 3.5), event(kStep, 1, 3.25)});
    write(dir.file("m.csv"), false, 0, {event(kValidation, 0, 3.5), event(kStep, 1, 3.25)});
    std::ifstream lines(dir.file("m.jsonl"));
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(nlohmann::json::parse(line)["event"], "validation");
    std::getline(lines, line);
    const auto step = nlohmann::ordered_json::parse(line);
    EXPECT_EQ(step["loss"], 3.25);
    EXPECT_EQ(step["learning_rate"], 1e-4);
    std::string names;
    for (const auto & [name, value] : step.items()) {
        names += (names.empty() ? "" : ",") + name;
    }
    const std::string csv = content(dir.file("m.csv"));
    EXPECT_EQ(csv.substr(0, csv.find('\n')), names);
    EXPECT_NE(csv.find("\n1,step,10,1,3.25,"), std::string::npos) << csv;
}

TEST(MetricsFile, AResumedRunGoesOnBelowItsCheckpoint) {
    const TempDir dir;
    for (const char * name : {"m.jsonl", "m.csv"}) {
        const std::string path = dir.file(name);
        write(path, false, 0, {event(kStep, 1, 4), event(kStep, 2, 3), event(kStep, 3, 2)});
        const std::string three = content(path);
        std::ofstream(path, std::ios::app) << "{\"step\":2,\"ev";  // a kill in the middle
        write(path, true, 2, {event(kStep, 3, 2)});
        EXPECT_EQ(content(path), three) << name;
        write(path, false, 0, {});  // a new run begins anew
        EXPECT_LT(content(path).size(), three.size());
    }
}

TEST(MetricsFile, OtherNamesAreRefused) {
    const auto sink = open_metrics_file("losses.txt", false, 0);
    ASSERT_FALSE(sink.ok());
    EXPECT_NE(sink.error().message.find(".jsonl or .csv"), std::string::npos);
    EXPECT_FALSE(open_metrics_file("/no/such/folder/m.csv", false, 0).ok());
}

// A reader of records and protocol buffers, enough for what is written here.
class Fields {
  public:
    explicit Fields(std::string_view bytes) {
        while (!bytes.empty()) {
            const uint64_t key = varint(bytes);
            const auto field = static_cast<int>(key >> 3U);
            size_t length = 0;
            switch (key & 7U) {
            case 0:
                numbers[field] = varint(bytes);
                continue;
            case 1:
                length = 8;
                break;
            case 2:
                length = varint(bytes);
                break;
            default:
                length = 4;
            }
            EXPECT_LE(length, bytes.size());
            texts[field].push_back(std::string(bytes.substr(0, length)));
            bytes.remove_prefix(length);
        }
    }
    std::map<int, uint64_t> numbers;
    std::map<int, std::vector<std::string>> texts;

  private:
    static uint64_t varint(std::string_view & bytes) {
        uint64_t value = 0;
        for (unsigned shift = 0; !bytes.empty(); shift += 7) {
            const auto byte = static_cast<unsigned char>(bytes.front());
            bytes.remove_prefix(1);
            value |= static_cast<uint64_t>(byte & 0x7fU) << shift;
            if (byte < 0x80) {
                break;
            }
        }
        return value;
    }
};

std::vector<Fields> read_events(const std::string & path) {
    const std::string bytes = content(path);
    std::vector<Fields> events;
    const auto masked = [](std::string_view data) {
        const uint32_t crc = crc32c(data);
        return ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U;
    };
    for (size_t at = 0; at < bytes.size();) {
        uint64_t length = 0;
        uint32_t crc = 0;
        std::memcpy(&length, bytes.data() + at, sizeof length);
        std::memcpy(&crc, bytes.data() + at + 8, sizeof crc);
        EXPECT_EQ(crc, masked(std::string_view(bytes).substr(at, 8)));
        const std::string_view event = std::string_view(bytes).substr(at + 12, length);
        std::memcpy(&crc, bytes.data() + at + 12 + length, sizeof crc);
        EXPECT_EQ(crc, masked(event));
        events.emplace_back(event);
        at += 16 + length;
    }
    return events;
}

std::string only_file(const TempDir & dir) {
    return std::filesystem::directory_iterator(dir.file(""))->path().string();
}

TEST(Tensorboard, ChecksumIsCrc32c) {
    EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
    EXPECT_EQ(crc32c(""), 0U);
}

TEST(Tensorboard, RecordsHoldStepsTagsAndValues) {
    const TempDir dir;
    {
        const auto sink = open_tensorboard(dir.file(""), false, 0);
        ASSERT_TRUE(sink.ok()) << sink.error().message;
        ASSERT_TRUE((*sink)->add(event(kStep, 300, 2.5)).ok());
        ASSERT_TRUE((*sink)->add(event(kValidation, 300, 2.75)).ok());
    }
    EXPECT_NE(only_file(dir).find("events.out.tfevents."), std::string::npos);
    const std::vector<Fields> events = read_events(only_file(dir));
    ASSERT_EQ(events.size(), 3U);
    EXPECT_EQ(events[0].texts.at(3).at(0), "brain.Event:2");
    EXPECT_EQ(events[1].numbers.at(2), 300U);
    const auto value = [](const Fields & event, const std::string & tag) {
        const Fields summary(event.texts.at(5).at(0));
        for (const std::string & bytes : summary.texts.at(1)) {
            const Fields entry(bytes);
            if (entry.texts.at(1).at(0) == tag) {
                float number = 0;
                std::memcpy(&number, entry.texts.at(2).at(0).data(), sizeof number);
                return number;
            }
        }
        return -1.0F;
    };
    EXPECT_EQ(value(events[1], "train/loss"), 2.5F);
    EXPECT_EQ(value(events[1], "train/learning_rate"), 1e-4F);
    EXPECT_EQ(value(events[2], "validation/loss"), 2.75F);
}

TEST(Tensorboard, AResumedRunSaysFromWhichStepOn) {
    const TempDir dir;
    ASSERT_TRUE(open_tensorboard(dir.file(""), true, 7).ok());
    const std::vector<Fields> events = read_events(only_file(dir));
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[1].numbers.at(2), 8U);
    EXPECT_EQ(Fields(events[1].texts.at(7).at(0)).numbers.at(1), 1U);
}

size_t count(const std::string & text, const std::string & word) {
    size_t n = 0;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
        ++n;
    }
    return n;
}

TEST(LossCurve, DrawsThreeLinesWithAxes) {
    TrainSummary summary;
    summary.steps_per_epoch = 5;
    summary.step_loss = {4, 3, 2.5, 2, 1.8, 1.5, 1.4};
    summary.epoch_validation_loss = {4.2, 2.2, 1.9};
    const std::string svg = loss_curve_svg(summary);
    EXPECT_EQ(count(svg, "<path"), 3U);
    EXPECT_EQ(count(svg, "<circle"), 3U);
    EXPECT_NE(svg.find(">loss per token<"), std::string::npos);
    EXPECT_NE(svg.find(">step<"), std::string::npos);
    EXPECT_EQ(count(svg, "nan") + count(svg, "inf"), 0U);
}

TEST(LossCurve, IsDrawnForAnyRun) {
    TrainSummary summary;
    EXPECT_EQ(count(loss_curve_svg(summary), "<path"), 0U);
    summary.step_loss = {2.0};
    EXPECT_EQ(count(loss_curve_svg(summary), "nan"), 0U);
    summary.step_loss.assign(100000, -1.0);
    const std::string flat = loss_curve_svg(summary);
    EXPECT_EQ(count(flat, "nan"), 0U);
    EXPECT_LT(flat.size(), 50000U);
    EXPECT_LT(count(flat, "<text"), 30U);
}

}  // namespace

}  // namespace lumi
