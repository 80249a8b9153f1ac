// A training run seen from outside: it learns, repeats itself, stops when asked, and its pieces add
// up to the whole.
#include "tiny_training.h"

#include "graph/decoder.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace lumi {

namespace {

using Event = TrainProgress::Event;

double evaluated(const Model & model, const Dataset & dataset, const AdapterData * adapter) {
    LoraView view;
    std::unique_ptr<DeviceAdapter> uploaded;
    if (adapter != nullptr) {
        auto result = DeviceAdapter::create(*adapter, model.device());
        EXPECT_TRUE(result.ok());
        uploaded = std::move(result).value();
        uploaded->add_to(view, 1.0F);
    }
    const auto result = evaluate_dataset(model, dataset, view, false, nullptr);
    EXPECT_TRUE(result.ok()) << result.error().message;
    return result->loss;
}

class TrainerTest : public testing::Test {
  protected:
    std::unique_ptr<Model> model_ = load_tiny("tiny-gemma4.gguf");
};

// cases/training.md L9.
TEST_F(TrainerTest, LossFallsWithinTwentySteps) {
    TrainOptions options = quick_options();
    options.max_steps = 20;
    const TrainingRun run = run_training(*model_, options, rule_dataset({24, 30, 20, 28}));
    ASSERT_EQ(run.error, "");
    ASSERT_EQ(run.steps.size(), 20U);
    EXPECT_LT(run.steps.back().loss, 0.6 * run.steps.front().loss);
    EXPECT_EQ(run.events.back().event, Event::done);
    EXPECT_EQ(run.trainer->summary().steps, 20);
    EXPECT_EQ(run.trainer->summary().stopped_because, "");
}

// cases/training.md L3: the first loss is the base's own.
TEST_F(TrainerTest, FirstLossIsTheBasesLoss) {
    TrainOptions options = quick_options();
    options.max_steps = 1;
    const Dataset dataset = rule_dataset({24, 31});
    const TrainingRun run = run_training(*model_, options, dataset, dataset);
    const double base = evaluated(*model_, dataset, nullptr);
    EXPECT_NEAR(run.steps.at(0).loss, base, 1e-4 * base);
    EXPECT_NEAR(run.trainer->summary().epoch_validation_loss.at(0), base, 1e-4 * base);
}

// cases/training.md L11: no adapted weight is left out. A's first gradient is zero because B is.
TEST_F(TrainerTest, EveryBMovesInOneStepAndEveryAInTwo) {
    TrainOptions options = quick_options();
    options.targets = parse_targets("all,ple", model_->config()).value();
    const AdapterData start = make_adapter(model_->config(), model_->plain_weights(),
                                           options.targets, options.rank, options.alpha, 42);
    for (const int steps : {1, 2}) {
        options.max_steps = steps;
        const AdapterData end = run_training(*model_, options, rule_dataset({24, 30})).adapter();
        ASSERT_EQ(end.pairs.size(), start.pairs.size());
        for (size_t i = 0; i < start.pairs.size(); ++i) {
            const std::string name =
                module_weight_name(start.pairs[i].layer, start.pairs[i].module);
            EXPECT_NE(end.pairs[i].b, start.pairs[i].b) << name;
            EXPECT_EQ(end.pairs[i].a == start.pairs[i].a, steps == 1) << name;
        }
    }
}

// cases/training.md L26: a long and a short sample count by their tokens however they are batched.
TEST_F(TrainerTest, AccumulatingOverRunsEqualsOneRun) {
    const Dataset dataset = rule_dataset({8, 56});
    TrainOptions options = quick_options();
    options.max_steps = 3;
    options.window_tokens = 64;  // both in one run
    const TrainingRun together = run_training(*model_, options, dataset);
    options.window_tokens = 56;  // one after the other
    const TrainingRun apart = run_training(*model_, options, dataset);
    for (size_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(together.steps[i].loss, apart.steps[i].loss, 1e-4 * apart.steps[i].loss);
    }
    EXPECT_LT(adapter_distance(together.adapter(), apart.adapter()), 1e-3);
    // The loss is that of all tokens, not the mean of the two samples' means.
    const double all = evaluated(*model_, dataset, nullptr);
    EXPECT_NEAR(together.steps[0].loss, all, 1e-4 * all);
}

// cases/training.md L35, L42.
TEST_F(TrainerTest, SameSeedSameBytes) {
    TrainOptions options = quick_options();
    options.epochs = 2;
    const auto train = [&](uint64_t seed) {
        options.seed = seed;
        return run_training(*model_, options, rule_dataset({24, 30, 20, 28, 12})).adapter();
    };
    const AdapterData one = train(1);
    const AdapterData same = train(1);
    const AdapterData other = train(2);
    for (size_t i = 0; i < one.pairs.size(); ++i) {
        EXPECT_EQ(one.pairs[i].a, same.pairs[i].a);
        EXPECT_EQ(one.pairs[i].b, same.pairs[i].b);
        EXPECT_NE(one.pairs[i].a, other.pairs[i].a);
        EXPECT_NE(one.pairs[i].b, other.pairs[i].b);
    }
}

TEST_F(TrainerTest, SlicesChangeNoByte) {
    TrainOptions options = quick_options();
    options.max_steps = 2;
    options.slice_seconds = 1000.0;
    const TrainingRun whole = run_training(*model_, options, rule_dataset({24, 30}));
    options.slice_seconds = 1e-9;  // a node a slice
    const TrainingRun sliced = run_training(*model_, options, rule_dataset({24, 30}));
    EXPECT_LT(whole.slices, 20);
    EXPECT_GT(sliced.slices, 1000);
    for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(whole.steps[i].loss, sliced.steps[i].loss);
    }
    EXPECT_EQ(adapter_distance(whole.adapter(), sliced.adapter()), 0.0);
}

TEST_F(TrainerTest, StopFinishesTheStepAndKeepsIt) {
    TrainOptions options = quick_options();
    options.max_steps = 3;
    const TrainingRun three = run_training(*model_, options, rule_dataset({24, 30}));
    options.max_steps = 50;
    const TrainingRun stopped =
        run_training(*model_, options, rule_dataset({24, 30}), {}, nullptr, 3);
    EXPECT_EQ(stopped.error, "");
    EXPECT_EQ(stopped.steps.size(), 3U);
    EXPECT_EQ(stopped.trainer->summary().stopped_because, "stopped on request");
    EXPECT_EQ(adapter_distance(stopped.adapter(), three.adapter()), 0.0);
    EXPECT_EQ(stopped.trainer->advance().value().event, Event::done);
}

TEST_F(TrainerTest, OneSampleShorterThanTheWindowTrains) {
    TrainOptions options = quick_options();
    options.batch_samples = 8;
    options.epochs = 10;
    const TrainingRun run = run_training(*model_, options, rule_dataset({5}));
    ASSERT_EQ(run.error, "");
    EXPECT_EQ(run.steps.size(), 10U);
    EXPECT_LT(run.steps.back().loss, run.steps.front().loss);
}

TEST_F(TrainerTest, ValidationIsReportedFirstAndAfterEachEpochAndTheBestIsKept) {
    TrainOptions options = quick_options();
    options.epochs = 6;
    options.learning_rate = 3e-2F;  // overfits
    const Dataset validation = rule_dataset({9, 21, 33});
    const TrainingRun run = run_training(*model_, options, rule_dataset({24, 30}), validation);
    ASSERT_EQ(run.error, "");
    const TrainSummary & summary = run.trainer->summary();
    ASSERT_EQ(summary.epoch_validation_loss.size(), 7U);
    ASSERT_EQ(summary.epoch_train_loss.size(), 6U);
    ASSERT_EQ(run.events.front().event, Event::validation);
    const double best = *std::min_element(summary.epoch_validation_loss.begin() + 1,
                                          summary.epoch_validation_loss.end());
    const AdapterData kept = run.adapter();
    EXPECT_NEAR(evaluated(*model_, validation, &kept), best, 1e-4 * best);
    EXPECT_EQ(kept.record.count("train.validation_loss"), 1U);
}

TEST_F(TrainerTest, ContinuesFromAnAdapter) {
    TrainOptions options = quick_options();
    options.max_steps = 10;
    const Dataset dataset = rule_dataset({24, 30});
    const AdapterData first = run_training(*model_, options, dataset).adapter();
    options.rank = 16;  // the adapter's own rank wins
    options.max_steps = 1;
    const TrainingRun second = run_training(*model_, options, dataset, {}, &first);
    EXPECT_EQ(second.adapter().pairs[0].rank, 4);
    EXPECT_NEAR(second.steps[0].loss, evaluated(*model_, dataset, &first), 1e-3);
}

// K and V of layers below stay in the graph; a test's stand-in for a cache.
class GraphStore : public KvStore {
  public:
    KeyValue append(GraphContext &, ggml_cgraph *, int il, const GraphInputs &, ggml_tensor * k,
                    ggml_tensor * v) override {
        kept_[il] = {k, v};
        return kept_[il];
    }
    KeyValue read(GraphContext &, int il) override { return kept_.at(il); }

  private:
    std::map<int, KeyValue> kept_;
};

template <typename T> void set(ggml_tensor * t, const std::vector<T> & values) {
    ggml_backend_tensor_set(t, values.data(), 0, ggml_nbytes(t));
}

// Fills the inputs of a graph over one whole sample, all rows wanted.
void fill_whole(const Model & model, const Sample & sample, const GraphInputs & in) {
    const Config & config = model.config();
    const size_t n = sample.tokens.size();
    const int cut = config.last_kv_layer();
    std::vector<float> values(n * static_cast<size_t>(config.n_embd));
    EXPECT_TRUE(model.gather_embeddings(sample.tokens, values).ok());
    set(in.embd, values);
    values.resize(n * static_cast<size_t>(config.n_ple * cut));
    EXPECT_TRUE(model.gather_ple(sample.tokens, 0, cut, values).ok());
    set(in.ple_low, values);
    values.resize(n * static_cast<size_t>(config.n_ple * (config.n_layer - cut)));
    EXPECT_TRUE(model.gather_ple(sample.tokens, cut, config.n_layer - cut, values).ok());
    set(in.ple_high, values);
    std::vector<int32_t> pos(n);
    std::vector<float> full(n * n, -INFINITY);
    std::vector<float> swa = full;
    for (size_t i = 0; i < n; ++i) {
        pos[i] = static_cast<int32_t>(i);
        for (size_t j = 0; j <= i; ++j) {
            full[i * n + j] = 0.0F;
            swa[i * n + j] = i - j < static_cast<size_t>(config.window) ? 0.0F : -INFINITY;
        }
    }
    set(in.pos, pos);
    set(in.mask_full, full);
    set(in.mask_swa, swa);
}

// The mean of -log p over the sample's targets by the inference builder.
double inference_loss(const Model & model, const Sample & sample, const LoraView & view) {
    const Config & config = model.config();
    const int n = static_cast<int>(sample.tokens.size());
    const GgmlContext context(ggml_init({8U << 20, nullptr, true}));
    GraphContext g;
    g.ctx = context.get();
    g.differentiable = true;  // the exact GELU, so that only the adapter can differ
    const GraphInputs in = make_inputs(g.ctx, config, {n, n, n, n}, false, false);
    ggml_cgraph * graph = ggml_new_graph_custom(g.ctx, 8192, false);
    const DecoderModel decoder{&config, &model.plain_weights(), &view};
    GraphStore store;
    ggml_tensor * logits = build_inference_graph(g, graph, decoder, in, store);
    ggml_set_output(logits);
    const GgmlAllocator allocator(ggml_gallocr_new(model.device().buffer_type()));
    EXPECT_TRUE(ggml_gallocr_alloc_graph(allocator.get(), graph));
    fill_whole(model, sample, in);
    EXPECT_TRUE(model.device().compute(graph).ok());

    const auto n_vocab = static_cast<size_t>(config.n_vocab);
    std::vector<float> z(n_vocab * static_cast<size_t>(n));
    ggml_backend_tensor_get(logits, z.data(), 0, z.size() * sizeof(float));
    double loss = 0;
    for (size_t i = 0; i + 1 < static_cast<size_t>(n); ++i) {
        if (sample.target_weight[i + 1] == 0.0F) {
            continue;
        }
        const float * row = z.data() + i * n_vocab;
        double mass = 0;
        for (size_t v = 0; v < n_vocab; ++v) {
            mass += std::exp(static_cast<double>(row[v]));
        }
        loss += std::log(mass) - static_cast<double>(row[sample.tokens[i + 1]]);
    }
    return loss / sample.n_targets();
}

// cases/training.md L1, L39: what is trained is what is served, alpha / rank included.
TEST_F(TrainerTest, TrainedScaleIsTheServedScale) {
    TrainOptions options = quick_options();
    options.rank = 2;
    options.alpha = 10.0F;
    options.max_steps = 5;
    const Dataset dataset = rule_dataset({40});
    const AdapterData adapter = run_training(*model_, options, dataset).adapter();
    const auto uploaded = DeviceAdapter::create(adapter, model_->device());
    ASSERT_TRUE(uploaded.ok());
    LoraView view;
    (*uploaded)->add_to(view, 1.0F);
    const double trained = evaluated(*model_, dataset, &adapter);
    const double served = inference_loss(*model_, dataset.samples[0], view);
    const double base = inference_loss(*model_, dataset.samples[0], {});
    EXPECT_NEAR(served, trained, 2e-4 * trained);
    EXPECT_GT(std::abs(base - trained), 0.1) << "the adapter changed too little to tell";
}

}  // namespace

}  // namespace lumi
