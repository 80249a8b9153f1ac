// LoRA training as a resumable piece of work: advance() computes about one slice (20 ms of graph)
// and returns, so that the thread that owns the model can answer between slices. Never publishes a
// non-finite adapter: on trouble it keeps the last good one and says so.
#pragma once

#include "adapter/adapter.h"
#include "base/cancel.h"
#include "model/model.h"
#include "train/dataset.h"

#include <functional>
#include <memory>

namespace lumi {

enum class LrSchedule : unsigned char { constant, linear, cosine };

// Whether the activations of every layer are kept for its adjoint or computed again: less work or
// less memory. automatic: kept when they take at most half of the memory that is free beside the
// model's file.
enum class Recompute : unsigned char { automatic, on, off };

struct TrainOptions {
    int rank = 16;
    float alpha = 32.0F;
    bool rank_stabilised = false;  // updates are scaled by alpha / sqrt(rank), not alpha / rank
    TargetSet targets;
    float dropout = 0.0F;  // share of what the adapter reads that is zeroed while it trains
    uint64_t seed = 42;
    int epochs = 3;
    int max_steps = 0;  // 0 = epochs decide
    float learning_rate = 1e-4F;
    LrSchedule schedule = LrSchedule::cosine;
    int warmup_steps = 5;
    float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F, weight_decay = 0.0F;
    float clip_norm = 1.0F;  // 0 = off
    int batch_samples = 8;   // samples of one optimiser step (accumulated)
    int window_tokens = 512;
    bool packing = true;  // samples of a step side by side in one graph run
    int early_stop_epochs =
        0;  // end after so many epochs without a better validation loss; 0 = off
    Recompute recompute = Recompute::automatic;
    bool portable = false;  // plain ggml products even on the CPU (tests)
    double slice_seconds = 0.02;
    Status check() const;
};

struct TrainProgress {
    enum class Event : unsigned char { slice, step, validation, epoch, done };
    Event event = Event::slice;
    int step = 0, total_steps = 0;
    int epoch = 0;    // 1-based while running
    double loss = 0;  // per supervised token: of the step, or of the validation set
    double smoothed_loss = 0;
    double grad_norm = 0;  // before clipping
    double learning_rate = 0;
    uint64_t tokens_done = 0, targets_done = 0;
    double seconds = 0, eta_seconds = 0;
    double tokens_per_second = 0;
    double targets_per_second = 0;  // supervised tokens
    uint64_t memory_bytes = 0;      // resident in this process; 0 where the system does not tell
    double validated = 0;           // of a slice during validation: the share of it that is done
};

struct TrainSummary {
    std::vector<double> epoch_train_loss;
    std::vector<double>
        epoch_validation_loss;      // [0] is before training when a validation set exists
    std::vector<double> step_loss;  // per supervised token, of every step so far
    int steps = 0;
    int steps_per_epoch = 1;
    int kept_epoch = 0;  // whose adapter was kept, as the best; 0: the last step's
    double seconds = 0;
    uint64_t tokens = 0;
    std::string stopped_because;  // empty when it ran to the end
};

// What a run will be, known before anything is allocated.
struct TrainPlan {
    MemoryPlan memory;
    bool recompute = true;
    int steps = 0;
    int steps_per_epoch = 0;
    uint64_t n_parameters = 0;
    size_t n_tensors = 0;  // two a pair
};

struct Checkpoint;

class Trainer {
  public:
    // Plans memory, builds the optimiser state; init continues from an adapter (its rank, alpha and
    // pairs win). resume continues a run where its checkpoint was written; on the CPU what follows
    // is bit for bit what an uninterrupted run would have done. It is refused, naming each
    // difference, unless model, data and settings are those of the checkpoint.
    static Result<std::unique_ptr<Trainer>> create(const Model & model, Dataset train,
                                                   Dataset validation, const TrainOptions & options,
                                                   const AdapterData * init,
                                                   const Checkpoint * resume = nullptr);
    // The plan that create() would follow; fails where create() would refuse the run, but not for
    // lack of memory.
    static Result<TrainPlan> plan(const Model & model, const Dataset & train,
                                  const Dataset & validation, const TrainOptions & options,
                                  const AdapterData * init);
    ~Trainer();

    // The next slice. After Event::done further calls return done again. A numeric error leaves the
    // last good adapter in adapter().
    Result<TrainProgress> advance();
    bool done() const;
    // Finishes the current step and ends early (Ctrl-C).
    void request_stop();

    const TrainPlan & plan() const;
    // Between two steps, where a checkpoint may be written.
    bool at_boundary() const;
    // Adapter, optimiser, position in the data, random state, losses so far and settings as one
    // file (train/checkpoint.h), written as a whole or not at all. Only at_boundary().
    Status save_checkpoint(const std::string & path) const;

    // The adapter as of the last completed step (best validation loss when there is a validation
    // set and training is done).
    Result<AdapterData> adapter() const;
    const TrainSummary & summary() const;

  private:
    struct Impl;
    explicit Trainer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

// Loss and perplexity of a dataset under a model with adapters: `lumi eval`. A loss is the sum of
// the targets' weighted losses (graph/loss.h) over the sum of their weights' sizes: the mean of
// -log p where all weights are 1.
struct SampleLoss {
    int line = 0;
    uint64_t targets = 0;
    double loss = 0;
};
struct EvalResult {
    double loss = 0;
    double perplexity = 0;
    uint64_t targets = 0;
    std::vector<SampleLoss> samples;  // one a record: its windows are one sample again
};
Result<EvalResult> evaluate_dataset(const Model & model, const Dataset & dataset,
                                    const LoraView & loras, bool portable,
                                    const CancelToken * cancel);

}  // namespace lumi
