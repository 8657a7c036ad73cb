package gosdk_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// TestSelfTestPasses: what is relied on is true of the release that is built against.
func TestSelfTestPasses(t *testing.T) {
	if len(gosdk.Canaries()) == 0 {
		t.Fatal("nothing is tried")
	}
	for name, try := range gosdk.Canaries() {
		t.Run(name, func(t *testing.T) {
			if err := try(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A release that works differently is named as the reason.
func TestSelfTestNamesWhatChanged(t *testing.T) {
	err := gosdk.TryOne("the sky is blue", errors.New("it is grey"))
	if err == nil || !strings.Contains(err.Error(), "the sky is blue: it is grey") {
		t.Errorf("got %v", err)
	}
}

// The words and functions that are looked for are those of the SDK's bridge:
// without them its questions would be taken for the handler's.
func TestTestsAreNotTakenForTheBridge(t *testing.T) {
	if gosdk.CalledByBridge() {
		t.Error("a test is taken for the SDK's bridge")
	}
}
