// The settings that decide a run's numbers, as text by name: what a checkpoint must agree with
// before it is resumed, and what the adapter's record tells.
#pragma once

#include "train/trainer.h"

#include <map>
#include <string>

namespace lumi {

using TrainSettings = std::map<std::string, std::string>;

// start is the adapter that training begins with; init says whether somebody gave it.
TrainSettings settings_of(const TrainOptions & options, const AdapterData & start, bool init);

// What a dataset teaches, in a line: "300 samples, 12000 tokens, sha256 0123456789abcdef".
std::string dataset_identity(const Dataset & dataset);

// Names every setting that differs, with what it was and what it is.
Status check_same_settings(const TrainSettings & was, const TrainSettings & is);

// The shortest text that reads back as the same number.
std::string exact_number(double value);
std::string exact_number(float value);

}  // namespace lumi
