package cases

import (
	"runtime"
	"time"

	"github.com/rondo-mcp/rondo/internal/benchmarks/drive"
	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// Waiting is the memory that a server keeps for a flow whose question nobody
// has answered yet, in objects and stacks.
func Waiting() (list []measure.Case) {
	for _, s := range peers.Servers() {
		list = append(list, measure.Case{Group: WaitingGroup, Row: "flow that waits", Peer: s.Name,
			Run: func(time.Duration) (measure.Sample, error) {
				leave := asking(wire.DeployCall)
				do, err := leave(drive.NewHandler(s.New()))
				if err != nil {
					return nil, err
				}
				return kept(1000, do)
			}})
	}
	return list
}

// kept is the memory that is in use after n more calls of do, for each.
func kept(n int, do func() error) (measure.Sample, error) {
	for range 10 { // what is made once
		if err := do(); err != nil {
			return nil, err
		}
	}
	before := inUse()
	for range n {
		if err := do(); err != nil {
			return nil, err
		}
	}
	// Less than one byte each is what other things did meanwhile.
	return measure.Sample{measure.Memory: max(0, float64((inUse()-before)/int64(n)))}, nil
}

// inUse is the memory of objects and stacks.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // twice, for what pools hold
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
