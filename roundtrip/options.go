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

const (
	defaultMaxRounds     = 8        // a handler that asks more often does not converge
	defaultMaxStateBytes = 16 << 10 // keeps retries below the limits of proxies
	// hardMaxStateBytes bounds every requestState: headers, proxies and clients have limits.
	hardMaxStateBytes = 64 << 10
	defaultRoundTTL   = time.Hour
	// flowTTL bounds a flow unless one round may take longer. Longer work is a task.
	flowTTL   = 24 * time.Hour
	clockSkew = 2 * time.Minute // between two replicas
)

// Options configure a [Funnel]. The zero value is safe: states are sealed with a key of this
// process. Zero is the default of every field. A negative value disables the limit or feature if
// the field's comment says so; otherwise [NewFunnel] returns an error that names the field.
type Options struct {
	// Sealer protects state that clients carry. Nil means a random key of this process: states end
	// with it, and other replicas refuse them. In legacy revisions only calls kept on the Page use it.
	Sealer keys.Sealer
	// Audience names the service that states are for; servers with another audience refuse them.
	// Replicas must share it, other services with the same key must not. It is required with a
	// Sealer whose key is not ephemeral. Package server defaults to the name of the server.
	Audience string
	// AppVersion names the version of the application. A question that another version, run side by
	// side, worded differently is asked once more. States carry it, cut at 64 bytes. Package server
	// defaults to the server's version. If empty, it is the main module's, from the build info.
	AppVersion string
	// Guard makes states that clients carry single-use. If nil, they can be replayed until expiry.
	Guard store.Guard
	// Observer receives the funnel's events. If nil, no events are created.
	Observer event.Observer
	// Tracer links rounds, tasks' runs and pushed questions in traces. Nil disables tracing.
	Tracer Tracer
	Limits Limits
	// RoundTTL is how long a round may wait for answers; 0 means 1 h. A flow may last 24 h, or
	// RoundTTL if that is longer.
	RoundTTL time.Duration
	// RestartExpired restarts a flow whose state is authentic but expired, rather than refuse it.
	RestartExpired bool
	// HumanTimeout is how long a question pushed to a client of a legacy revision may wait for its
	// answer, or for progress. 0 means 10 minutes. The package comment lists the other timeouts.
	HumanTimeout time.Duration
	// MinHumanTime is the least time in which a person can read a question: a decline or cancel
	// that comes sooner is [Unseen]. It runs from the writing of the question in a session,
	// otherwise from the sealing of the state. 0 means 400 ms, or no limit for requests within the
	// process; negative means no limit. It does not apply to unsolicited answers.
	MinHumanTime time.Duration
	// StateStore, shared by replicas, keeps states above Limits.StateBytes, up to 1 MiB. If nil,
	// they are an error.
	StateStore store.StateStore
	// HideErrors hides the texts of handlers' errors, other than [*protocol.Error], from clients.
	// They and the observer get a reference instead ([event.HandlerFailed]). For an error that
	// wraps a refusal they get only the refusal. Set it if untrusted callers use the server.
	HideErrors bool
	// Page shows forms that a client does not support, or answers too fast, with an error or never.
	// The client is asked to show the page's link, or the result has the link, and an identical call
	// goes on after the answer. If nil, such calls are refused; anonymous ones always are.
	Page QuestionPage
	// AllowURL decides whether the user may be asked to visit a URL; an error, for the observer,
	// refuses the visit. It sees only absolute URLs, https or http to a loopback host, without user
	// name and control characters, of at most 8 KiB. A refusal ends the call with an internal error
	// that names the question. Calls may overlap, and repeat a URL. Nil allows all.
	AllowURL func(*url.URL) error
}

// Limits bound flows and waiting calls. Zero is the default of every field.
type Limits struct {
	Rounds int // of a flow; 0 means 8
	// StateBytes bounds requestState, in both directions, before it is decoded. 0 means 16 KiB; the
	// maximum is 64 KiB. In legacy revisions a state counts as if sealed by a [keys.Keyring].
	StateBytes int
	// Waiting bounds unfinished calls that have begun to wait for a person. Other concurrency
	// limits exclude a call while it waits; above this limit it is refused with [protocol.CodeBusy]
	// before anything is asked. 0 means 4096, negative no limit.
	Waiting int
	// WaitingPerPrincipal bounds such calls of an authenticated principal. 0 means 256, negative no
	// limit. One session may have 64, or a quarter if that is more. Anonymous callers, who cannot
	// be told apart, share all of Waiting, or three quarters once somebody has authenticated.
	WaitingPerPrincipal int
}

// checkKey reports a shared key without an Audience: services would accept each other's states.
func (o *Options) checkKey() error {
	if isEphemeral(o.Sealer) || o.Audience != "" {
		return nil
	}
	return errors.New("funnel: an audience is required beside a shared key; set Audience to " +
		"a name that all replicas of this service share and no other service has, for " +
		"example its URL")
}

// checkNegative reports the first invalid negative field.
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

func (o *Options) flowTTL() time.Duration { return max(flowTTL, o.RoundTTL) }

func (o *Options) ownVersion() string {
	version := o.AppVersion
	if info, ok := debug.ReadBuildInfo(); ok && version == "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	return version[:min(len(version), maxFlowVersion)]
}

// isEphemeral reports whether only this process can open what sealer seals. A sealer without a
// description counts as shared, which requires an Audience.
func isEphemeral(sealer keys.Sealer) bool {
	ring, ok := sealer.(keys.Describer)
	return ok && ring.Ephemeral()
}
