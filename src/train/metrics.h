// Where a run's losses go beside the screen: one interface, several file formats. A sink that fails
// says so once; the run goes on without it.
#pragma once

#include "train/trainer.h"

#include <memory>
#include <string>

namespace lumi {

class MetricsSink {
  public:
    virtual ~MetricsSink() = default;
    // Called for every event that is not a slice.
    virtual Status add(const TrainProgress & progress) = 0;
};

// "step", "validation", "epoch", "done": how every format names an event.
const char * event_name(TrainProgress::Event event);

// One line an event, JSON or comma separated by the name's ending (.jsonl, .csv). A resumed run
// goes on below the lines up to its checkpoint's step: what came later is dropped, since it happens
// again.
Result<std::unique_ptr<MetricsSink>> open_metrics_file(const std::string & path, bool resumed,
                                                       int step);

// TensorBoard's event file, a new one in folder each time; a resumed run tells TensorBoard to
// forget what was recorded after its checkpoint's step.
Result<std::unique_ptr<MetricsSink>> open_tensorboard(const std::string & folder, bool resumed,
                                                      int step);

}  // namespace lumi
