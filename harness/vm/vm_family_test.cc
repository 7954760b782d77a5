// Guests by name; nothing is booted.
#include <gtest/gtest.h>

#include "harness/devices/provider_family.h"

namespace qpexam::vm {
namespace {

TEST(VmFamily, TheDefaultHasANameOfItsSeriesToo) {
  ProviderInfo plain, named;
  std::string why;
  ASSERT_TRUE(FindProvider("vm:rxe", &plain, &why)) << why;
  ASSERT_TRUE(FindProvider("vm:rxe@6.1", &named, &why)) << why;
  EXPECT_EQ(named.name, "vm:rxe@6.1");
  EXPECT_EQ(named.version, plain.version);
  EXPECT_EQ(plain.version.rfind("6.1", 0), 0u) << plain.version;
  ASSERT_TRUE(FindProvider("vm:rxe@6.12", &named, &why)) << why;
  EXPECT_EQ(named.version.rfind("6.12", 0), 0u) << named.version;
}

TEST(VmFamily, ASeriesThatNobodyHasIsNone) {
  ProviderInfo info;
  std::string why;
  for (const char* name : {"vm:rxe@6", "vm:rxe@6.10", "vm:rxe@6.1x", "vm:rxe@", "vm:siw@6.1"}) {
    EXPECT_FALSE(FindProvider(name, &info, &why)) << name;
    EXPECT_NE(why.find(name), std::string::npos) << why;
  }
}

}  // namespace
}  // namespace qpexam::vm
