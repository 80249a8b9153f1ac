// The compute thread: takes jobs from a queue, answers first, and trains in slices between pieces.
#include "engine/engine.h"

#include "base/log.h"

#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <thread>

namespace lumi {

namespace {

struct TextJob {
    TextRequest request;
    TextSink sink;
    std::shared_ptr<CancelToken> cancel;
    std::promise<Result<TextResult>> promise;
};

struct TrainJob {
    TrainRequest request;
    std::function<void(const TrainProgress &)> on_progress;
    std::shared_ptr<CancelToken> cancel;
    std::promise<Result<TrainResult>> promise;
    std::unique_ptr<Trainer> trainer;
    int samples = 0;
};

struct MemoryJob {
    std::optional<AdapterData> adapter;  // none = clear
    float scale = 1.0F;
    std::promise<Status> promise;
};

// A published revision: the numbers (to continue from) and the device's copy (to answer with).
struct Revision {
    std::string name;
    std::shared_ptr<const AdapterData> data;
    std::shared_ptr<const DeviceAdapter> device;
    float scale = 1.0F;
};

Error cancelled_error() {
    return {ErrorKind::cancelled, "cancelled"};
}

class ResidentEngine final : public Engine {
  public:
    ResidentEngine(LoadedModel loaded, std::unique_ptr<Session> session)
        : loaded_(std::move(loaded)), session_(std::move(session)) {
        status_.model_name = loaded_.model->config().name;
        status_.device = loaded_.model->device().name();
        status_.n_ctx = session_->options().n_ctx;
        status_.n_embd = loaded_.model->config().n_embd;
        thread_ = std::thread([this] { run(); });
    }

    ~ResidentEngine() override {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        wake_.notify_all();
        thread_.join();
    }

    std::future<Result<TextResult>> submit(TextRequest request, TextSink sink,
                                           std::shared_ptr<CancelToken> cancel) override {
        auto job = std::make_unique<TextJob>();
        job->request = std::move(request);
        job->sink = std::move(sink);
        job->cancel = cancel ? std::move(cancel) : std::make_shared<CancelToken>();
        auto future = job->promise.get_future();
        enqueue(text_jobs_, std::move(job));
        return future;
    }

    std::future<Result<TrainResult>> train(TrainRequest request,
                                           std::function<void(const TrainProgress &)> on_progress,
                                           std::shared_ptr<CancelToken> cancel) override {
        auto job = std::make_unique<TrainJob>();
        job->request = std::move(request);
        job->on_progress = std::move(on_progress);
        job->cancel = cancel ? std::move(cancel) : std::make_shared<CancelToken>();
        auto future = job->promise.get_future();
        enqueue(train_jobs_, std::move(job));
        return future;
    }

    std::future<Status> clear_memory() override { return memory_job(std::nullopt, 1.0F); }
    std::future<Status> load_memory(AdapterData adapter, float scale) override {
        return memory_job(std::move(adapter), scale);
    }

    Result<AdapterData> memory() const override {
        const std::lock_guard lock(mutex_);
        if (!published_.data) {
            return Error{ErrorKind::invalid_argument,
                         "nothing has been learnt: there is no adapter"};
        }
        return *published_.data;
    }

    EngineStatus status() const override {
        const std::lock_guard lock(mutex_);
        EngineStatus status = status_;
        status.queued = static_cast<int>(text_jobs_.size() + train_jobs_.size());
        return status;
    }

  private:
    template <typename Job>
    void enqueue(std::deque<std::unique_ptr<Job>> & queue, std::unique_ptr<Job> job) {
        {
            const std::lock_guard lock(mutex_);
            queue.push_back(std::move(job));
        }
        wake_.notify_all();
    }

    template <typename Job> std::unique_ptr<Job> pop(std::deque<std::unique_ptr<Job>> & queue) {
        const std::lock_guard lock(mutex_);
        if (queue.empty()) {
            return nullptr;
        }
        std::unique_ptr<Job> job = std::move(queue.front());
        queue.pop_front();
        return job;
    }

    std::future<Status> memory_job(std::optional<AdapterData> adapter, float scale) {
        auto job = std::make_unique<MemoryJob>();
        job->adapter = std::move(adapter);
        job->scale = scale;
        auto future = job->promise.get_future();
        enqueue(memory_jobs_, std::move(job));
        return future;
    }

    // One piece of an answer, then one slice of training, for as long as there is either.
    void run() {
        while (true) {
            while (std::unique_ptr<MemoryJob> job = pop(memory_jobs_)) {
                job->promise.set_value(change_memory(*job));
            }
            if (!text_) {
                start_next_text();
            }
            if (text_) {
                step_text();
            }
            if (!training_) {
                start_next_training();
            }
            if (training_) {
                step_training();
            }
            std::unique_lock lock(mutex_);
            wake_.wait(lock, [this] {
                return stopping_ || text_ || training_ || !text_jobs_.empty() ||
                       !train_jobs_.empty() || !memory_jobs_.empty();
            });
            if (stopping_) {
                lock.unlock();
                abandon_everything();
                return;
            }
        }
    }

    void abandon_everything() {
        if (text_) {
            text_->promise.set_value(cancelled_error());
        }
        if (training_) {
            training_->promise.set_value(cancelled_error());
        }
        while (auto job = pop(text_jobs_)) {
            job->promise.set_value(cancelled_error());
        }
        while (auto job = pop(train_jobs_)) {
            job->promise.set_value(cancelled_error());
        }
        while (auto job = pop(memory_jobs_)) {
            job->promise.set_value(cancelled_error());
        }
    }

    void start_next_text() {
        text_ = pop(text_jobs_);
        if (!text_) {
            return;
        }
        if (text_->cancel->cancelled()) {
            return finish_text(cancelled_error());
        }
        result_ = TextResult();
        const Status started = begin_generation();
        if (!started.ok()) {
            finish_text(started.error());
        }
    }

    Status begin_generation() {
        RenderedChat prompt = LUMI_TRY(render_prompt(loaded_, text_->request));
        std::vector<AppliedAdapter> adapters;
        if (text_->request.use_memory && published_.device) {
            adapters.push_back({published_.device, published_.scale, published_.name});
            result_.revision = published_.name;
        }
        LUMI_TRY(session_->set_adapters(std::move(adapters)));
        GenerationOptions options = text_->request.generation;
        parser_ = nullptr;
        if (text_->request.is_chat) {
            parser_ = loaded_.chat->make_parser(prompt.opens_thought);
            options.with_special = true;
        }
        generation_ = LUMI_TRY(
            Generation::start(*session_, *loaded_.tokenizer, std::move(prompt.tokens), options));
        return {};
    }

    void step_text() {
        if (text_->cancel->cancelled()) {
            generation_->cancel();
        }
        Result<GenerationStep> step = generation_->step();
        if (!step.ok()) {
            return finish_text(step.error());
        }
        OutputDelta delta = parsed(*step);
        result_.output.content += delta.content;
        result_.output.reasoning += delta.reasoning;
        for (const ToolCall & call : delta.tool_calls) {
            result_.output.tool_calls.push_back(call);
        }
        if (text_->sink && (step->token >= 0 || step->done) && !text_->sink(delta, *step)) {
            text_->cancel->cancel();
        }
        if (!step->done) {
            return;
        }
        result_.finish = generation_->finish_reason();
        result_.times = generation_->times();
        result_.tokens = generation_->generated();
        if (result_.finish == FinishReason::cancelled) {
            return finish_text(cancelled_error());
        }
        finish_text(std::move(result_));
    }

    OutputDelta parsed(const GenerationStep & step) {
        if (!parser_) {
            OutputDelta delta;
            delta.content = step.text;
            return delta;
        }
        OutputDelta delta = parser_->push(step.text);
        if (step.done) {
            OutputDelta rest = parser_->finish();
            delta.content += rest.content;
            delta.reasoning += rest.reasoning;
            delta.tool_calls.insert(delta.tool_calls.end(), rest.tool_calls.begin(),
                                    rest.tool_calls.end());
        }
        return delta;
    }

    void finish_text(Result<TextResult> result) {
        generation_.reset();
        std::unique_ptr<TextJob> job = std::move(text_);
        {
            const std::lock_guard lock(mutex_);
            ++status_.requests_done;
        }
        job->promise.set_value(std::move(result));
    }

    void start_next_training() {
        training_ = pop(train_jobs_);
        if (!training_) {
            return;
        }
        if (training_->cancel->cancelled()) {
            return finish_training(cancelled_error());
        }
        const Status started = begin_training();
        if (!started.ok()) {
            return finish_training(started.error());
        }
        const std::lock_guard lock(mutex_);
        status_.training = true;
        status_.progress = TrainProgress();
    }

    Status begin_training() {
        TrainRequest & request = training_->request;
        if (!loaded_.chat) {
            return Error{ErrorKind::unsupported,
                         "this model has no chat format: " + loaded_.chat_error};
        }
        DatasetOptions options;
        options.max_tokens = request.options.window_tokens;
        options.assistant_only = request.assistant_only;
        Dataset data;
        if (!request.chats.empty()) {
            data = LUMI_TRY(dataset_from_chats(request.chats, *loaded_.chat, options));
        } else {
            data =
                LUMI_TRY(parse_dataset(request.corpus, *loaded_.chat, *loaded_.tokenizer, options));
        }
        training_->samples = static_cast<int>(data.samples.size());
        Dataset validation;
        if (request.validation_share > 0.0) {
            validation = split_validation(data, request.validation_share, request.options.seed);
        }
        const Config & config = loaded_.model->config();
        request.options.targets =
            LUMI_TRY(parse_targets(request.targets.empty() ? "all" : request.targets, config));
        const AdapterData * init = request.from_base ? nullptr : published_.data.get();
        training_->trainer = LUMI_TRY(Trainer::create(
            *loaded_.model, std::move(data), std::move(validation), request.options, init));
        return {};
    }

    void step_training() {
        if (training_->cancel->cancelled()) {
            return finish_training(cancelled_error());
        }
        Result<TrainProgress> progress = training_->trainer->advance();
        if (!progress.ok()) {
            return finish_training(progress.error());
        }
        if (progress->event != TrainProgress::Event::slice) {
            const std::lock_guard lock(mutex_);
            status_.progress = *progress;
        }
        if (training_->on_progress && progress->event != TrainProgress::Event::slice) {
            training_->on_progress(*progress);
        }
        if (training_->trainer->done()) {
            finish_training(publish_training());
        }
    }

    Result<TrainResult> publish_training() {
        AdapterData data = LUMI_TRY(training_->trainer->adapter());
        LUMI_TRY(data.check_finite());
        LUMI_TRY(publish(std::move(data), 1.0F));
        TrainResult result;
        result.revision = published_.name;
        result.samples = training_->samples;
        result.summary = training_->trainer->summary();
        return result;
    }

    void finish_training(Result<TrainResult> result) {
        std::unique_ptr<TrainJob> job = std::move(training_);
        {
            const std::lock_guard lock(mutex_);
            status_.training = false;
        }
        job->promise.set_value(std::move(result));
    }

    Status publish(AdapterData data, float scale) {
        Revision next;
        next.device = LUMI_TRY(DeviceAdapter::create(data, loaded_.model->device()));
        next.name = "r" + std::to_string(++last_revision_);
        next.scale = scale;
        const uint64_t parameters = data.n_parameters();
        next.data = std::make_shared<const AdapterData>(std::move(data));
        const std::lock_guard lock(mutex_);
        published_ = std::move(next);
        status_.revision = published_.name;
        status_.adapter_parameters = parameters;
        return {};
    }

    Status change_memory(MemoryJob & job) {
        if (job.adapter) {
            return publish(std::move(*job.adapter), job.scale);
        }
        // Whoever asks to forget does not want a lesson that is still being learnt to come back.
        const Error forgotten{ErrorKind::cancelled, "cancelled: the memory was cleared"};
        if (training_) {
            finish_training(forgotten);
        }
        while (std::unique_ptr<TrainJob> waiting = pop(train_jobs_)) {
            waiting->promise.set_value(forgotten);
        }
        const std::lock_guard lock(mutex_);
        published_ = Revision();
        status_.revision.clear();
        status_.adapter_parameters = 0;
        return {};
    }

    LoadedModel loaded_;
    std::unique_ptr<Session> session_;

    // Shared with other threads, under mutex_. published_ is written by the compute thread only.
    mutable std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::unique_ptr<TextJob>> text_jobs_;
    std::deque<std::unique_ptr<TrainJob>> train_jobs_;
    std::deque<std::unique_ptr<MemoryJob>> memory_jobs_;
    Revision published_;
    EngineStatus status_;
    bool stopping_ = false;

    // The compute thread's own.
    std::unique_ptr<TextJob> text_;
    std::unique_ptr<Generation> generation_;
    std::unique_ptr<OutputParser> parser_;
    TextResult result_;
    std::unique_ptr<TrainJob> training_;
    uint64_t last_revision_ = 0;

    std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Engine>> start_engine(LoadedModel loaded, const SessionOptions & options) {
    std::unique_ptr<Session> session = LUMI_TRY(Session::create(*loaded.model, options));
    return std::unique_ptr<Engine>(
        std::make_unique<ResidentEngine>(std::move(loaded), std::move(session)));
}

}  // namespace lumi
