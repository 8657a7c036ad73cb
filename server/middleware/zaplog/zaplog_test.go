package zaplog_test

import (
	"fmt"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// A core may keep entries, and encode them later and concurrently.
func TestKeptEntriesStayAsTheyWere(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	log := middleware.NewLog(zaplog.New(zap.New(core)), nil)
	const entries = 20
	for i := range entries {
		log.Observe(t.Context(), event.InputRequested{RoundsLeft: 5,
			Kinds:     []protocol.InputKind{protocol.KindElicitForm, protocol.KindListRoots},
			Questions: []event.AskedQuestion{{Key: fmt.Sprint("key-", i)}}})
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for i, e := range logs.All() {
				fields := e.ContextMap()
				want := fmt.Sprintf("[key-%d %032d]", i, 0)
				if got := fmt.Sprint(fields["questions"]); got != want {
					t.Errorf("entry %d has questions %s, want %s", i, got, want)
				}
				if got := fmt.Sprint(fields["kinds"]); got != "[elicitation.form roots]" {
					t.Errorf("entry %d has kinds %s", i, got)
				}
			}
		})
	}
	readers.Wait()
	if logs.Len() != entries {
		t.Errorf("%d entries, want %d", logs.Len(), entries)
	}
}

func TestWithoutALoggerNothingIsLogged(t *testing.T) {
	middleware.NewLog(zaplog.New(nil), nil).Observe(t.Context(), event.EphemeralKey{KeyID: "k"})
}
