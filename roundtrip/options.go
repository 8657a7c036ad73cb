package roundtrip

import (
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// The defaults of [Options].
const (
	// defaultMaxRounds is how often a flow may ask. People do not answer
	// more often, and a handler that asks more often does not converge.
	defaultMaxRounds = 8
	// defaultMaxStateBytes keeps retries below what proxies allow.
	defaultMaxStateBytes = 16 << 10
	// hardMaxStateBytes is the longest requestState that any funnel sends or reads, whatever its
	// options say: headers, proxies and clients have limits of their own.
	hardMaxStateBytes = 64 << 10
	// defaultRoundTTL is how long a person may take to answer one round.
	defaultRoundTTL = time.Hour
	// flowTTL is how long a flow may take in all, unless one round may take longer: a day, which is
	// the time between two people who look at the same thing. What takes longer is a task.
	flowTTL = 24 * time.Hour
	// clockSkew is how far the clocks of two replicas may differ.
	clockSkew = 2 * time.Minute
)

// Options configure a [Funnel]. The zero value is safe: states are sealed with
// a key of this process. Zero is the default of every field. A negative number or
// duration turns off what the field limits or sends where its comment says so;
// everywhere else it is an error of [NewFunnel] that names the field.
type Options struct {
	// Sealer protects state that clients carry. Nil: a random key that only
	// this process has, so that states die with it and other replicas refuse
	// them. Calls of legacy revisions keep theirs and do not ask for a seal.
	Sealer keys.Sealer
	// Audience names the service that states are for. States sealed for one
	// audience are refused by another. Replicas must share it, and no other
	// service that has the key may: it is required beside a Sealer whose key is
	// not ephemeral. Package server defaults to the name of the server.
	Audience string
	// AppVersion names the version of the application, so that two of them that run side
	// by side know of each other: a question that the other worded differently is asked once
	// more. States carry it, cut at 64 bytes. Package server defaults to the version of the
	// server. Empty: that of the main module in the build info, if it has one.
	AppVersion string
	// Guard makes states that clients carry single-use. Nil: they may be
	// replayed until they expire.
	Guard store.Guard
	// Observer receives the events of the funnel. Nil: none are made.
	Observer event.Observer
	// Tracer ties the rounds of flows, the runs of tasks and the questions of sessions together
	// in traces. Nil: nobody does.
	Tracer Tracer
	// Limits bound what flows and calls that wait may use.
	Limits Limits
	// RoundTTL is how long a round may wait for answers, 0: 1 h. A flow may take
	// a day, or as long as one round if that is longer.
	RoundTTL time.Duration
	// RestartExpired guards against flows that cannot go on: one whose state is
	// authentic but too old starts over, instead of the request being refused.
	RestartExpired bool
	// HumanTimeout is how long one question that is pushed to a client of a legacy revision may
	// wait for its answer, or for the next sign of progress on it. 0: 10 minutes. The package
	// comment lists the other clocks that may run out on a person.
	HumanTimeout time.Duration
	// MinHumanTime is the least time in which a person can have read a question: a decline or
	// cancel that comes sooner is [Unseen]. In a session it runs from the time when the question
	// was written, otherwise from that when the state was sealed. 0: 400 ms, but none for requests
	// of the same process; negative: none. Unsolicited answers have no such time.
	MinHumanTime time.Duration
	// StateStore keeps states that pass Limits.StateBytes, up to 1 MiB each. Nil: such a
	// flow ends with an error. Replicas must share it.
	StateStore store.StateStore
	// HideErrors guards what is behind the server: the texts of errors that handlers
	// return, other than [*protocol.Error], are kept from clients. They get a reference,
	// which the observer gets as well ([event.HandlerFailed]). Of an error that wraps a
	// person's refusal they get that alone. Set it where strangers call the server.
	HideErrors bool
	// Page has the forms of questions that a client does not show: it cannot, or answers in no
	// time, with an error or never. The client is asked to show the link of the page, or the result
	// of the call has the link in words and the same call is to be made again after the answer.
	// Nil: such calls are refused, as those of anonymous callers are always.
	Page QuestionPage
	// AllowURL decides whether the person may be asked to visit a URL; an error, which goes to the
	// observer, refuses it. It can only refuse more: URLs that reach it are absolute, https or http
	// to a loopback host, carry no user name and no control characters and have at most 8 KiB. What
	// is refused ends the call with an internal error that names the question, and nothing is
	// asked. Calls may overlap, and a URL may be seen several times. Nil: all of these are allowed.
	AllowURL func(*url.URL) error
}

// Limits bound what flows and calls that wait may use. Zero is the default of every field.
type Limits struct {
	// Rounds is how often a flow may ask, 0: 8.
	Rounds int
	// StateBytes bounds requestState, in both directions, before it is decoded. 0: 16 KiB; never
	// more than 64 KiB. In legacy revisions, whose clients carry none, a state counts as long as a
	// [keys.Keyring] would make it.
	StateBytes int
	// Waiting is how many calls that have begun to wait for a person may be unfinished. A call
	// keeps its place until it ends, also while it runs on after an answer. Limits on what runs
	// leave out a call while it waits; a call that would wait beyond this limit is refused with
	// [protocol.CodeBusy] before anything is asked. 0: 4096, negative: no limit.
	Waiting int
	// WaitingPerPrincipal is how many of them may be one authenticated principal's, 0: 256,
	// negative: no limit. One session may have 64 of them, or a quarter if that is more. Anonymous
	// callers have no limit each, since they cannot be told apart: together they may use all of
	// Waiting, or all but a quarter once somebody has authenticated.
	WaitingPerPrincipal int
}

// checkKey reports a key that other services may have without an Audience to tell them apart:
// with equal tools they would accept each other's states.
func (o *Options) checkKey() error {
	if isEphemeral(o.Sealer) || o.Audience != "" {
		return nil
	}
	return errors.New("funnel: an audience is required beside a shared key; set Audience to " +
		"a name that all replicas of this service share and no other service has, for " +
		"example its URL")
}

// checkNegative reports the first field that is negative and cannot be turned off.
func (o *Options) checkNegative() error {
	for _, field := range [...]struct {
		name  string
		value int64
	}{
		{"Limits.Rounds", int64(o.Limits.Rounds)},
		{"Limits.StateBytes", int64(o.Limits.StateBytes)},
		{"RoundTTL", int64(o.RoundTTL)},
		{"HumanTimeout", int64(o.HumanTimeout)},
	} {
		if field.value < 0 {
			return fmt.Errorf("funnel: %s is negative", field.name)
		}
	}
	return nil
}

// flowTTL is how long a flow may take in all.
func (o *Options) flowTTL() time.Duration { return max(flowTTL, o.RoundTTL) }

// ownVersion returns the version of the application as states carry it.
func (o *Options) ownVersion() string {
	version := o.AppVersion
	if info, ok := debug.ReadBuildInfo(); ok && version == "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	return version[:min(len(version), maxFlowVersion)]
}

// isEphemeral reports whether only this process can open what sealer seals. A
// sealer that does not say is taken for shared, which demands an Audience.
func isEphemeral(sealer keys.Sealer) bool {
	ring, ok := sealer.(keys.Describer)
	return ok && ring.Ephemeral()
}
