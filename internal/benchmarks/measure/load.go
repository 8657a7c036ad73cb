package measure

import (
	"runtime"
	"time"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// connections is how many clients a server has at once: enough to keep one
// processor busy, few enough that waiting in line is not all there is to see.
const connections = 64

// Load is flows over loopback connections to a server in a process of its own
// that has one processor; this process has the others. It takes ten times as
// long as other cases, for the sake of p99.
func Load() (list []Case) {
	for _, s := range Servers() {
		list = append(list, Case{Group: LoadGroup, Row: "flow, 64 connections",
			Peer: s.Name,
			Run:  func(d time.Duration) (Sample, error) { return loadOne(s.Name, 10*d) }})
	}
	return list
}

func loadOne(peer string, d time.Duration) (Sample, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(1, runtime.NumCPU()-1)))
	process, err := wire.Start("-serve", peer)
	if err != nil {
		return nil, err
	}
	load, err := wire.Flows(process.Addr, connections, d)
	cpu, stopped := process.Stop()
	if err != nil {
		return nil, err
	}
	return Sample{
		CPU:  float64(cpu) / float64(load.Flows),
		Rate: float64(len(load.Took)) / d.Seconds(),
		P50:  float64(load.Quantile(.50)),
		P99:  float64(load.Quantile(.99)),
	}, stopped
}
