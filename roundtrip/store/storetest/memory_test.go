package storetest_test

import (
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/roundtrip/store/storetest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const entries = 40

func inMemory() *storetest.Options {
	return &storetest.Options{Bubble: true, Open: func(*testing.T) *storetest.Store {
		guard, states := store.NewMemoryGuard(entries), store.NewMemoryStateStore(entries)
		tasks := store.NewMemoryTaskStore()
		return &storetest.Store{
			Guard:        func(*testing.T) store.Guard { return guard },
			States:       func(*testing.T) store.StateStore { return states },
			ExpireLeases: func(*testing.T) { time.Sleep(store.Lease) },
			Tasks:        func(*testing.T) store.TaskStore { return tasks },
			Entries:      entries, TaskBytes: 256 << 20,
		}
	}}
}

func TestMemoryGuard(t *testing.T) { storetest.TestGuard(t, inMemory()) }

func TestMemoryStateStore(t *testing.T) { storetest.TestStateStore(t, inMemory()) }

func TestMemoryTaskStore(t *testing.T) { storetest.TestTaskStore(t, inMemory()) }
