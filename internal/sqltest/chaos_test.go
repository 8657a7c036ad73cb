//go:build postgres

package sqltest_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/guardchaos"
	"github.com/rondo-mcp/rondo/internal/testing/taskchaos"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/roundtrip/sqlstore"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// chaosFlows returns how many flows TestChaos has.
func chaosFlows() int {
	if testkit.Soak {
		return 1000
	}
	return 150
}

func openReplica(ctx context.Context, url string) (store.Guard, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(20) // three replicas, and PostgreSQL has 100
	return sqlstore.New(ctx, db, nil)
}

func runAsReplica() bool { return guardchaos.ServeReplica(openReplica) }

// TestChaos has flows charged while replicas and the database are killed and connections are cut.
// The database keeps its disk. No flow is charged twice.
func TestChaos(t *testing.T) {
	c := startPostgres(t)
	db, name := c.withTables(t)
	proxy := guardchaos.NewProxy(t, "unix", c.socket())
	report := guardchaos.Run(t, guardchaos.Plan{
		Flows: chaosFlows(), Copies: 5, Retries: 60, Every: time.Second,
		Store: fmt.Sprintf("postgres://rondo@%s/%s?sslmode=disable", proxy.Address(), name),
		Trouble: []func(){
			proxy.Cut,
			func() { c.kill(); c.start() },
		},
		ExpireLeases: func() { mustExec(t, db, "update rondo_claims set lease = 0") },
	})
	t.Log(report)
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
	plan := taskchaos.Plan{Tasks: 30, Questions: 2, Store: c.url(name), Every: time.Second,
		Length: 12 * time.Second, Trouble: []func(){die}}
	if testkit.Soak {
		plan.Tasks, plan.Questions, plan.Length = 200, 3, 2*time.Minute
		plan.Trouble = []func(){die, die}
	}
	taskchaos.Run(t, plan)
}
