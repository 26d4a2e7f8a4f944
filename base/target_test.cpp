#include "base/target.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>

#include "base/cgroup.h"
#include "base/file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

TEST(Target, ReadsBack) {
  for (Isa isa : {Isa::kX86V3, Isa::kX86V4, Isa::kX86V4Vnni, Isa::kX86V4Bf16, Isa::kX86V4Amx,
                  Isa::kSm80, Isa::kSm90, Isa::kSm100}) {
    Target target = {
        .kind = isa < Isa::kSm80 ? TargetKind::kCpu : TargetKind::kCuda, .isa = isa, .threads = 7};
    EXPECT_EQ(*ParseTarget(Print(target)), target) << Print(target);
    target.l2_bytes = 2 << 20;
    target.l3_bytes = 12345;
    EXPECT_EQ(*ParseTarget(Print(target)), target) << Print(target);
  }
  EXPECT_EQ(Print(Target{.isa = Isa::kX86V4, .threads = 2}), "cpu:x86-64-v4 threads=2");
  EXPECT_EQ(Print(Target{.l1_bytes = 49152}), "cpu:x86-64-v3 threads=1 l1=49152");
  EXPECT_EQ(Print(*ParseTarget("cuda:sm_90")), "cuda:sm_90 threads=1");  // on every machine
}

TEST(Target, Host) {
  const Result<Target> host = HostTarget();
  if (!HostRuns(Isa::kX86V3)) {
    EXPECT_EQ(host.status().code(), Code::kUnsupported);
    GTEST_SKIP() << "a processor without AVX2";
  }
  EXPECT_TRUE(HostRuns(host->isa));
  EXPECT_EQ(host->threads, UsableThreads());
  EXPECT_EQ(*ParseTarget("cpu"), *host);
  EXPECT_EQ(*ParseTarget(Print(*host)), *host);
  EXPECT_GE(host->l2_bytes, host->l1_bytes);
  EXPECT_EQ(ParseTarget("cpu:x86-64-v3")->isa, Isa::kX86V3);
  EXPECT_FALSE(HostRuns(Isa::kSm90));
  EXPECT_LE(HostRuns(Isa::kX86V4Amx), HostRuns(Isa::kX86V4Bf16));
  EXPECT_LE(HostRuns(Isa::kX86V4Bf16), HostRuns(Isa::kX86V4Vnni));
  EXPECT_FALSE(DeviceName().empty());
  EXPECT_EQ(DeviceName().find('\n'), std::string::npos);
}

TEST(Target, Refuses) {
  for (const char* text :
       {"", "gpu", "cpu:", "cpux", "cuda", "cuda:", "cpu:sm_90", "cuda:native", "cpu:x86-64-v3 ",
        "cpu:x86-64-v3 threads=0", "cpu:x86-64-v3 threads=-1", "cpu:x86-64-v3 threads=99999",
        "cpu:x86-64-v3 threads=2x", "cpu:x86-64-v3 threads", "cpu:x86-64-v3 color=2",
        "cpu:x86-64-v3 l1=99999999999999999999", "cpu:x86-64-v3  threads=2"}) {
    if (std::string_view(text) == "cpu:") continue;  // as cpu
    EXPECT_EQ(ParseTarget(text).status().code(), Code::kUsage) << text;
  }
  EXPECT_EQ(ParseTarget("cpu:avx9").status().what(),
            "found target cpu:\"avx9\", expected one of cpu:x86-64-v3, cpu:x86-64-v4, "
            "cpu:x86-64-v4-vnni, cpu:x86-64-v4-bf16, cpu:x86-64-v4-amx");
}

TEST(Target, ThreadsFollowTheAffinityMask) {
  cpu_set_t old, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof old, &old), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &old)) CPU_SET(cpu, &one);
  }
  EXPECT_LE(UsableThreads(), CPU_COUNT(&old));
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(UsableThreads(), 1);
  ::sched_setaffinity(0, sizeof old, &old);
}

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/weft-cgroup-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(root_); }
  void Write(const std::string& path, std::string_view text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    ASSERT_TRUE(WriteFileAtomically(root_ + path, text).ok());
  }
  std::string root_;
};

TEST_F(CgroupTest, Version2TakesTheLeastOnTheWayUp) {
  EXPECT_EQ(CgroupCpuQuota(root_, "0::/a/b\n"), std::nullopt);
  Write("/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_, "0::/a/b\n"), std::nullopt);
  Write("/a/cpu.max", "250000 100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_, "0::/a/b\n"), 2.5);
  Write("/cpu.max", "100000 100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_, "0::/a/b"), 1.0);
  EXPECT_EQ(CgroupCpuQuota(root_, "0::/only/the/host/sees\n"), 1.0);
}

TEST_F(CgroupTest, Version1) {
  const std::string groups = "9:name=systemd:/\n4:cpu,cpuacct:/docker/x\n0::/\n";
  Write("/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_, groups), std::nullopt);
  Write("/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "150000\n");
  Write("/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCpuQuota(root_, groups), 1.5);
}

TEST_F(CgroupTest, NonsenseIsNoQuota) {
  Write("/cpu.max", "many\n");
  for (const char* text : {"", "\n\n", "0", "0:", "0::", ":::::", "0::/../../etc", "0::a"}) {
    EXPECT_EQ(CgroupCpuQuota(root_, text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace weft
