package wire

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Load is what many connections have seen of a server.
type Load struct {
	Flows int             // all, those before the measurement included
	Took  []time.Duration // each flow of the measurement, sorted
}

// Flows has n connections do flows of two legs, one after the other, for d,
// and for a quarter of that before anything is measured.
func Flows(addr string, n int, d time.Duration) (*Load, error) {
	workers, errs := make([]worker, n), make([]error, n)
	for i := range workers {
		conn, err := Dial(addr)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		workers[i] = worker{conn: conn, first: DeployCall(), second: DeployAnswer()}
	}
	var running sync.WaitGroup
	begin := time.Now().Add(d / 4)
	for i := range workers {
		running.Go(func() { errs[i] = workers[i].run(begin, begin.Add(d)) })
	}
	running.Wait()
	load := &Load{}
	for _, w := range workers {
		load.Flows += w.flows
		load.Took = append(load.Took, w.took...)
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

type worker struct {
	conn          *Conn
	first, second Call
	state         []byte
	flows         int
	took          []time.Duration
}

// run does flows until end, and keeps how long those took that ended after begin.
func (w *worker) run(begin, end time.Time) error {
	for now := time.Now(); now.Before(end); {
		if err := w.flow(); err != nil {
			return err
		}
		w.flows++
		began := now
		if now = time.Now(); now.After(begin) && now.Before(end) {
			w.took = append(w.took, now.Sub(began))
		}
	}
	return nil
}

func (w *worker) flow() error {
	status, response, err := w.conn.Do(w.first, nil)
	if err != nil || status != 200 || !Asks(response) {
		return errors.Join(err, fmt.Errorf("status %d: %.300s", status, response))
	}
	w.state = append(w.state[:0], State(response)...)
	status, response, err = w.conn.Do(w.second, w.state)
	if err != nil || status != 200 || !Complete(response) {
		return errors.Join(err, fmt.Errorf("status %d: %.300s", status, response))
	}
	return nil
}

// Quantile is the time that a share q of the flows took at most.
func (l *Load) Quantile(q float64) time.Duration {
	return l.Took[min(len(l.Took)-1, int(q*float64(len(l.Took))))]
}
