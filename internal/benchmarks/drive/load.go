package drive

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

// A Load is what many connections have seen of a server.
type Load struct {
	Flows    int             // all, those before the measurement included
	Took     []time.Duration // each flow of the measurement, sorted
	Duration time.Duration   // of the measurement
}

// Flows has n connections do flows of two legs, one after the other, for d,
// and for a quarter of that before anything is measured.
func Flows(addr string, n int, d time.Duration, first, second wire.Call) (*Load, error) {
	var (
		phase   atomic.Int32 // before, measuring, over
		workers = make([]worker, n)
		errs    = make([]error, n)
		running sync.WaitGroup
	)
	for i := range workers {
		conn, err := Dial(addr)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		workers[i] = worker{conn: conn, first: first, second: second,
			took: make([]time.Duration, 0, 1<<14)}
	}
	for i := range workers {
		running.Go(func() { errs[i] = workers[i].run(&phase) })
	}
	time.Sleep(d / 4)
	phase.Store(measuring)
	began := time.Now()
	time.Sleep(d)
	phase.Store(over)
	load := &Load{Duration: time.Since(began)}
	running.Wait()
	for i := range workers {
		load.Flows += workers[i].flows
		load.Took = append(load.Took, workers[i].took...)
	}
	slices.Sort(load.Took)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(load.Took) == 0 {
		return nil, fmt.Errorf("no flow ended within %s", d)
	}
	return load, nil
}

const (
	measuring = 1
	over      = 2
)

type worker struct {
	conn          *Conn
	first, second wire.Call
	state         []byte
	flows         int
	took          []time.Duration
}

func (w *worker) run(phase *atomic.Int32) error {
	for phase.Load() != over {
		began := time.Now()
		if err := w.flow(); err != nil {
			return err
		}
		w.flows++
		if phase.Load() == measuring {
			w.took = append(w.took, time.Since(began))
		}
	}
	return nil
}

func (w *worker) flow() error {
	status, response, err := w.conn.Do(w.first, nil)
	if err != nil || status != 200 || !wire.Asks(response) {
		return errors.Join(err, fmt.Errorf("status %d: %.300s", status, response))
	}
	w.state = append(w.state[:0], wire.State(response)...)
	status, response, err = w.conn.Do(w.second, w.state)
	if err != nil || status != 200 || !wire.Complete(response) {
		return errors.Join(err, fmt.Errorf("status %d: %.300s", status, response))
	}
	return nil
}

// Quantile is the time that a share q of the flows took at most.
func (l *Load) Quantile(q float64) time.Duration {
	return l.Took[min(len(l.Took)-1, int(q*float64(len(l.Took))))]
}
