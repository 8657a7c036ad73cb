package sqltest_test

import (
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/chaos"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// TestLinksOutliveReplicas has people answer at links while the two replicas that have the calls
// and the page over one file of SQLite are killed.
func TestLinksOutliveReplicas(t *testing.T) { runLinks(t, newTaskFile(t)) }

func runLinks(t *testing.T, address string) {
	plan := chaos.Plan{Flows: 60, Store: address, Every: 300 * time.Millisecond,
		Length: 6 * time.Second}
	if testkit.Soak {
		plan.Flows, plan.Length = 1000, time.Minute
	}
	chaos.RunLinks(t, plan)
}
