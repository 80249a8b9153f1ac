// Target sets from text, and which modules an adapter gets from them.
#include "small_adapter.h"

#include <set>

namespace lumi {

namespace {

std::set<std::string> adapted(const std::string & text) {
    const Config config = small_config();
    const PresentWeights present(config);
    const auto targets = parse_targets(text, config);
    EXPECT_TRUE(targets.ok()) << targets.error().message;
    std::set<std::string> names;
    for (const LoraMatrixPair & pair :
         make_adapter(config, present.weights, targets.value(), 2, 4.0F, 1).pairs) {
        names.insert(module_weight_name(pair.layer, pair.module));
    }
    return names;
}

TEST(Targets, NamesSelectModulesInEveryLayer) {
    EXPECT_EQ(adapted("q,down"),
              (std::set<std::string>{"blk.0.attn_q.weight", "blk.1.attn_q.weight",
                                     "blk.2.attn_q.weight", "blk.3.attn_q.weight",
                                     "blk.0.ffn_down.weight", "blk.1.ffn_down.weight",
                                     "blk.2.ffn_down.weight", "blk.3.ffn_down.weight"}));
}

TEST(Targets, KeysAndValuesOnlyWhereALayerOwnsThem) {
    EXPECT_EQ(adapted("k"), (std::set<std::string>{"blk.0.attn_k.weight", "blk.1.attn_k.weight"}));
}

TEST(Targets, TailLiesAboveTheLastOwnerOfKeysAndValues) {
    const std::set<std::string> names = adapted("tail");
    EXPECT_EQ(names.size(), 2U * 5U);
    for (const std::string & name : names) {
        EXPECT_TRUE(name.starts_with("blk.2.") || name.starts_with("blk.3.")) << name;
    }
    EXPECT_EQ(adapted("tail,q"),
              (std::set<std::string>{"blk.2.attn_q.weight", "blk.3.attn_q.weight"}));
}

TEST(Targets, AllIsSevenAndPleIsExtra) {
    EXPECT_EQ(adapted("all").size(), 4U * 7U - 4U);
    EXPECT_EQ(adapted("all,ple").size(), 4U * 9U - 4U);
    EXPECT_EQ(adapted("ple").count("blk.0.inp_gate.weight"), 1U);
}

TEST(Targets, ErrorsListWhatExists) {
    const Config config = small_config();
    for (const char * text : {"", "r", "q,,k", "q;k", "ALL", "tail,k"}) {
        const auto targets = parse_targets(text, config);
        ASSERT_FALSE(targets.ok()) << text;
        EXPECT_EQ(targets.error().kind, ErrorKind::invalid_argument);
        EXPECT_NE(targets.error().message.find("all, tail, ple, q, k"), std::string::npos)
            << targets.error().message;
    }
}

TEST(Targets, TailAndPleAreRefusedWhereTheModelHasNone) {
    Config config = small_config();
    config.n_ple = 0;
    for (LayerConfig & layer : config.layers) {
        layer.has_kv = true;
    }
    const auto tail = parse_targets("tail", config);
    ASSERT_FALSE(tail.ok());
    EXPECT_NE(tail.error().message.find("--layers"), std::string::npos) << tail.error().message;
    EXPECT_FALSE(parse_targets("ple", config).ok());
    EXPECT_FALSE(parse_targets("ple_gate", config).ok());
}

}  // namespace

}  // namespace lumi
