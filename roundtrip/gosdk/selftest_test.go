package gosdk_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// TestSelfTestPasses: the release that the module requires passes every check.
func TestSelfTestPasses(t *testing.T) {
	if len(gosdk.Checks()) == 0 {
		t.Fatal("there are no checks")
	}
	for name, check := range gosdk.Checks() {
		t.Run(name, func(t *testing.T) {
			if err := check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTestsAreNotTakenForTheBridge: only the SDK's bridge is recognized as such.
func TestTestsAreNotTakenForTheBridge(t *testing.T) {
	if gosdk.CalledByBridge() {
		t.Error("a test is taken for the SDK's bridge")
	}
}
