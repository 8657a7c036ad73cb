//go:build postgres

package sqltest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/chaos"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

func chaosFlows() int {
	if testkit.Soak {
		return 1000
	}
	return 150
}

// TestChaos kills replicas and the database and cuts connections: no flow is charged twice.
func TestChaos(t *testing.T) {
	c := startPostgres(t)
	db, name := c.withTables(t)
	link := servertest.NewLink(t)
	link.Open(c.socket())
	report := chaos.RunFlows(t, chaos.Plan{
		Flows: chaosFlows(), Copies: 5, Retries: 60, Every: time.Second,
		Store: fmt.Sprintf("postgres://rondo@%s/%s?sslmode=disable", link.Address(), name),
		Trouble: []func(){
			link.Break,
			func() { c.kill(); c.start() },
		},
		ExpireLeases: func() { mustExec(t, db, "update rondo_claims set lease = 0") },
	})
	if report.Double > 0 || report.Open > 0 {
		t.Error("each flow must be charged once at most, and its client must learn that")
	}
	if report.Served < chaosFlows()*8/10 {
		t.Error("most flows must be served")
	}
}

// TestTasksOutliveReplicasAndDatabase kills the database too, which keeps its disk.
func TestTasksOutliveReplicasAndDatabase(t *testing.T) {
	c := startPostgres(t)
	_, name := c.withTables(t)
	die := func() { c.kill(); c.start() }
	plan := chaos.Plan{Flows: 30, Questions: 2, Store: c.url(name), Every: time.Second,
		Length: 12 * time.Second, Trouble: []func(){die}}
	if testkit.Soak {
		plan.Flows, plan.Questions, plan.Length = 200, 3, 2*time.Minute
		plan.Trouble = []func(){die, die}
	}
	chaos.RunTasks(t, plan)
}

func TestLinksOutliveReplicasOnPostgres(t *testing.T) {
	c := startPostgres(t)
	_, name := c.withTables(t)
	runLinks(t, c.url(name))
}
