package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/publicerror"
	"github.com/rondo-mcp/rondo/protocol"
)

// The keys of messages between bridges. Those of routers begin otherwise.
const (
	busPrefix  = "bridge."
	keyResume  = busPrefix + "resume"  // answers, for the replica that has the call
	keyOutcome = busPrefix + "outcome" // for the replica whose client waits
	// keyProgress is progress of the call, for the same. It may be lost.
	keyProgress = busPrefix + "progress"
)

const (
	// pollInterval is how often a replica asks whether the one that has a call is there, and
	// whether it has an outcome that was lost on the way.
	pollInterval = 2 * time.Second
	// progressInterval is the least time between two messages with progress of a call for one
	// request at another replica. What comes in between is replaced by what comes later.
	progressInterval = 100 * time.Millisecond
	// leaseTime is how long a request at another replica counts as waiting since it was last
	// heard of.
	leaseTime = 3 * pollInterval
	// sendTimeout bounds the sending of one message to another replica.
	sendTimeout = 5 * time.Second
)

// A Bus is an [elicitation.Bus] that a router and a bridge share.
type Bus struct {
	elicitation.Bus

	mu     sync.Mutex
	bridge busHandler // nil: there is none yet
}

// A busHandler answers a message of another replica.
type busHandler = func(ctx context.Context, key string, message []byte) []byte

// ShareBus returns a bus for the Options of a router and of a bridge: bus has one listener. The
// caller closes bus after both are shut down.
func ShareBus(bus elicitation.Bus) *Bus { return &Bus{Bus: bus} }

// Listen implements [elicitation.Bus] for the router.
func (b *Bus) Listen(answer func(context.Context, string, []byte) []byte) error {
	if answer == nil {
		return errors.New("elicitation bridge: nothing to listen with")
	}
	return b.Bus.Listen(func(ctx context.Context, key string, message []byte) []byte {
		if !strings.HasPrefix(key, busPrefix) {
			return answer(ctx, key, message)
		}
		b.mu.Lock()
		handle := b.bridge
		b.mu.Unlock()
		if handle == nil {
			return nil
		}
		return handle(ctx, key, message)
	})
}

// setHandler sets the listener for the messages of bridges.
func (b *Bus) setHandler(handle busHandler) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bridge != nil {
		return errors.New("elicitation bridge: Options.Bus has a bridge already")
	}
	b.bridge = handle
	return nil
}

// A fleet is what a bridge has to do with those of other replicas.
type fleet struct {
	bridge *Bridge
	name   string

	mu      sync.Mutex
	waiters map[string]*waiter // requests here for calls of other replicas
	leases  map[string]*lease  // requests of other replicas for calls here
}

// A waiter is a request here for a call of another replica.
type waiter struct {
	outcome  chan *outcomeMessage    // has room for one
	progress chan *protocol.Progress // has room for one, nil: the client wants none

	// Guarded by fleet.mu.
	reported bool
	last     float64 // of what was reported
}

// A lease is a request at another replica that waits here for an outcome.
type lease struct {
	renewed chan struct{} // has room for one
}

func newFleet(b *Bridge) *fleet {
	return &fleet{
		bridge: b, name: b.opts.Bus.Name(), waiters: make(map[string]*waiter),
		leases: make(map[string]*lease),
	}
}

// A resumeMessage takes a request to the replica that has its call.
type resumeMessage struct {
	Call    string  `json:"call"`
	Round   int     `json:"round"`
	Binding []byte  `json:"binding"`
	Answers answers `json:"answers,omitempty"`
	// Progress says that the client wants progress.
	Progress bool `json:"progress,omitempty"`
	// From and Waiter are the replica at which the request waits, and its name there. They are
	// drawn at random.
	From   string `json:"from"`
	Waiter string `json:"waiter"`
}

// An outcomeMessage is what became of a request.
type outcomeMessage struct {
	Waiter    string            `json:"waiter,omitempty"`
	Waits     bool              `json:"waits,omitempty"` // the outcome is not there yet
	Error     *protocol.Error   `json:"error,omitempty"`
	Result    json.RawMessage   `json:"result,omitempty"`
	Questions []questionMessage `json:"questions,omitempty"`
	State     string            `json:"state,omitempty"`
}

type questionMessage struct {
	ID     string          `json:"id"`
	Params json.RawMessage `json:"params"`
}

// addWaiter adds a waiter and returns its name.
func (f *fleet) addWaiter(w *waiter) string {
	name := newID()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiters[name] = w
	return name
}

// takeWaiter removes and returns a waiter, nil if there is none.
func (f *fleet) takeWaiter(name string) *waiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.waiters[name]
	delete(f.waiters, name)
	return w
}

// forwardRequest brings a request to the replica that has its call, and returns the outcome from there.
func (f *fleet) forwardRequest(
	ctx context.Context, opened state, given answers, report progressFunc,
) (*Outcome, error) {
	w := &waiter{outcome: make(chan *outcomeMessage, 1)}
	if report != nil {
		w.progress = make(chan *protocol.Progress, 1)
	}
	name := f.addWaiter(w)
	defer f.takeWaiter(name)
	message := resumeMessage{Call: opened.call, Round: opened.round, Binding: opened.binding[:],
		Answers: given, Progress: report != nil, From: f.name, Waiter: name}
	data, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	if len(data) > elicitation.MaxBusMessage {
		return nil, errTooLargeForBus("answers are")
	}
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		got, err := f.sendResume(ctx, opened.owner, data)
		select {
		case early := <-w.outcome: // whatever became of this message
			return early.decodeOutcome()
		default:
		}
		switch {
		case err != nil:
			return nil, err
		case !got.Waits:
			return got.decodeOutcome()
		}
		got, err = w.awaitOutcome(ctx, poll.C, report)
		switch {
		case err != nil:
			return nil, err
		case got != nil:
			return got.decodeOutcome()
		}
	}
}

// awaitOutcome returns the outcome, or nil when the owner of the call is to be asked again: it may be
// gone, or the outcome lost. It reports progress meanwhile.
func (w *waiter) awaitOutcome(
	ctx context.Context, again <-chan time.Time, report progressFunc,
) (*outcomeMessage, error) {
	for {
		select {
		case got := <-w.outcome:
			return got, nil
		case p := <-w.progress:
			report(ctx, p)
		case <-again:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// sendResume sends a resumeMessage and returns what its owner says at once.
func (f *fleet) sendResume(ctx context.Context, owner string, data []byte) (
	*outcomeMessage, error) {
	sending, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	reply, err := f.bridge.opts.Bus.SendTo(sending, owner, keyResume, data)
	switch {
	case errors.Is(err, elicitation.ErrOwnerDead):
		f.bridge.metrics.countResume(resumeGone)
		return nil, errOwnerGone()
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, errUnreachable()
	}
	var got outcomeMessage
	if json.Unmarshal(reply, &got) != nil {
		return nil, errUnreachable() // it has no bridge, or an older one
	}
	return &got, nil
}

// decodeOutcome returns the decodeOutcome that m says.
func (m *outcomeMessage) decodeOutcome() (*Outcome, error) {
	switch {
	case m.Error != nil:
		return nil, m.Error
	case m.Result != nil:
		return &Outcome{Result: m.Result}, nil
	}
	o := &Outcome{State: m.State, Questions: make([]elicitation.Question, len(m.Questions))}
	for i, q := range m.Questions {
		request, err := protocol.DecodeInputRequest(protocol.MethodElicit, q.Params)
		if err != nil {
			return nil, err
		}
		o.Questions[i] = elicitation.Question{ID: q.ID, Params: q.Params, Request: request}
	}
	return o, nil
}

// handleMessage answers the messages of other replicas.
func (f *fleet) handleMessage(_ context.Context, key string, message []byte) []byte {
	var reply *outcomeMessage
	switch key {
	case keyResume:
		reply = f.handleResume(message)
	case keyOutcome:
		var arrived outcomeMessage
		if json.Unmarshal(message, &arrived) != nil {
			return nil
		}
		w := f.takeWaiter(arrived.Waiter)
		if w == nil {
			return nil
		}
		w.outcome <- &arrived // it has room, and no other sends
		reply = &outcomeMessage{}
	case keyProgress:
		f.handleProgress(message)
		reply = &outcomeMessage{}
	default:
		return nil
	}
	return reply.encode()
}

// encode returns the message of m, or one that says that it is too large.
func (m *outcomeMessage) encode() []byte {
	data, err := json.Marshal(m)
	if err != nil || len(data) > elicitation.MaxBusMessage {
		data, _ = json.Marshal(&outcomeMessage{Waiter: m.Waiter,
			Error: errTooLargeForBus("outcome of the call is")})
	}
	return data
}

// handleResume gives a call here the answers of a request at another replica.
func (f *fleet) handleResume(message []byte) *outcomeMessage {
	var m resumeMessage
	if json.Unmarshal(message, &m) != nil || len(m.Binding) != len(binding{}) {
		return &outcomeMessage{Error: errInvalidState()}
	}
	l, known := f.takeLease(m.Waiter)
	if known {
		l.renew()
		return &outcomeMessage{Waits: true}
	}
	if err := m.Answers.check(); err != nil {
		f.dropLease(m.Waiter)
		return &outcomeMessage{Error: publicerror.From(err)}
	}
	remote := &remoteRequest{replica: m.From, waiter: m.Waiter, lease: l}
	if m.Progress {
		remote.progress = make(chan *protocol.Progress, 1)
		remote.listener = newListener(f.bridge.ctx, remote.offerProgress)
	}
	c, r, err := f.bridge.resume(
		state{call: m.Call, round: m.Round, binding: binding(m.Binding)},
		m.Answers, remote.listener)
	if err != nil {
		f.dropLease(m.Waiter)
		remote.listener.stop()
		return &outcomeMessage{Error: publicerror.From(err)}
	}
	select {
	case <-r.ready:
		f.dropLease(m.Waiter)
		c.removeListener(remote.listener)
		outcome, err := c.awaitOutcome(f.bridge.ctx, r)
		return encodeOutcome("", outcome, err)
	default:
	}
	if !f.bridge.goRunning(func() { f.sendOutcome(c, r, remote) }) {
		f.dropLease(m.Waiter)
		c.removeListener(remote.listener)
		c.leaveRound(r, false)
		return &outcomeMessage{Error: errShuttingDown()}
	}
	return &outcomeMessage{Waits: true}
}

// takeLease returns the lease of a request at another replica, and whether there was one: a
// message may come several times.
func (f *fleet) takeLease(waiter string) (l *lease, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if l = f.leases[waiter]; l != nil {
		return l, true
	}
	l = &lease{renewed: make(chan struct{}, 1)}
	f.leases[waiter] = l
	return l, false
}

func (f *fleet) dropLease(waiter string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.leases, waiter)
}

func (l *lease) renew() {
	select {
	case l.renewed <- struct{}{}:
	default:
	}
}

// A remoteRequest is a request at another replica for a call here.
type remoteRequest struct {
	replica, waiter string // its own names
	lease           *lease
	listener        *listener               // nil: its client wants no progress
	progress        chan *protocol.Progress // has room for one, nil as well
}

// offerProgress keeps p for the client, in the place of what was not sent yet. Calls do not
// overlap.
func (r *remoteRequest) offerProgress(_ context.Context, p *protocol.Progress) {
	replaceLast(r.progress, p)
}

// replaceLast sends v on c, which has room for one, and drops what was there. Only one goroutine
// may send.
func replaceLast[T any](c chan T, v T) {
	select {
	case <-c:
	default:
	}
	c <- v
}

// sendOutcome waits for the outcome of a round, while the lease of a request lasts, and sends it
// to the request's replica. Until then it sends progress.
func (f *fleet) sendOutcome(c *parkedCall, r *round, remote *remoteRequest) {
	ctx, cancel := context.WithCancel(f.bridge.ctx)
	defer cancel()
	var meanwhile sync.WaitGroup
	meanwhile.Go(func() {
		remote.lease.waitUntilExpired(ctx)
		cancel()
	})
	if remote.listener != nil {
		meanwhile.Go(func() { f.sendProgress(ctx, remote) })
	}
	outcome, err := c.awaitOutcome(ctx, r)
	gone := ctx.Err() != nil
	cancel()
	c.removeListener(remote.listener)
	meanwhile.Wait()
	f.dropLease(remote.waiter) // from now on the replica gets the outcome when it asks
	if gone {
		return
	}
	sending, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	// Where it is lost the replica asks again.
	_, _ = f.bridge.opts.Bus.SendTo(sending, remote.replica, keyOutcome,
		encodeOutcome(remote.waiter, outcome, err).encode())
}

// waitUntilExpired returns when the lease was not renewed in time, or ctx ends.
func (l *lease) waitUntilExpired(ctx context.Context) {
	timer := time.NewTimer(leaseTime)
	defer timer.Stop()
	for {
		select {
		case <-l.renewed:
			timer.Reset(leaseTime)
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// encodeOutcome returns the message of an outcome.
func encodeOutcome(waiter string, outcome *Outcome, err error) *outcomeMessage {
	if err != nil {
		return &outcomeMessage{Waiter: waiter, Error: publicerror.From(err)}
	}
	m := &outcomeMessage{Waiter: waiter, Result: outcome.Result, State: outcome.State}
	for _, q := range outcome.Questions {
		m.Questions = append(m.Questions, questionMessage{ID: q.ID, Params: q.Params})
	}
	return m
}
