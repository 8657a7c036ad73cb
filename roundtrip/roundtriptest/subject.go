package roundtriptest

import (
	"net/http"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Subject is a server under test. [Server], [Handler], [Command] and [URL] return one; set
// further fields as needed. Only Connect is required.
type Subject struct {
	// Connect connects to the server for a user: "" or, with TwoUsers, "other". It closes its
	// resources with t.Cleanup; the package closes the peer as well. For servers on lines use
	// [Lines]; over HTTP return the result of clienthttp.New. Arguments are not mirrored in headers
	// (x-mcp-header); test such tools over lines.
	Connect func(t testing.TB, user string) protocol.Peer
	// Eras are the served eras (nil: both). A legacy server's peer must be a [protocol.LegacyPeer].
	Eras    []protocol.Era
	Effects *Effects // marked by the handlers; nil: none

	// Tasks hold the server's tasks, and kill their processes; nil: flows are not played as tasks.
	Tasks *Tasks

	TwoUsers bool // Connect authenticates as the user
	// SingleUse means that a guard is set: a used state is refused or gets the recorded outcome.
	SingleUse bool
	// Later lets at least the given time pass for the server: a day, or a shorter
	// Roundtrip.RoundTTL. [Attack] runs subtests, so it cannot be called in a bubble of
	// testing/synctest. If nil, expired states are not tested.
	Later func(time.Duration)
	// Lossy means that an SDK's decoding hides repeated and case-folded members of answers.
	Lossy bool

	// Browser returns a browser in which a connection's user is logged in to the server's pages,
	// which need a roundtrip.Options.Page. [Run] then also plays flows with clients that show only
	// links, or nothing; [Attack] attacks the links. Nil means no page.
	Browser func(user string) *http.Client

	reasons *reasons // the server's internal errors; nil: unknown
}

// forJudge returns the subject for package attack. Connections are closed at the end of t.
func (s *Subject) forJudge(t testing.TB) *attack.Target {
	target := &attack.Target{Eras: s.Eras, TwoUsers: s.TwoUsers, SingleUse: s.SingleUse,
		Later: s.Later, Lossy: s.Lossy}
	if s.Connect != nil {
		target.Connect = func(user string) (protocol.Peer, error) {
			return s.Connect(t, user), nil
		}
	}
	if s.Browser != nil {
		target.Browser = func(user string) attack.Browser { return openBrowser(s.Browser(user)) }
	}
	if s.Effects != nil {
		target.Effects = &s.Effects.seen
	}
	if s.reasons != nil {
		target.TakeReasons = s.reasons.takeReasons
	}
	if s.Tasks != nil {
		target.Tasks = &s.Tasks.kept
		target.Tasks.Reset = s.Tasks.reset
		said := target.TakeReasons
		target.TakeReasons = func() []string {
			reasons := s.Tasks.said.takeReasons()
			if said != nil {
				reasons = append(reasons, said()...)
			}
			return reasons
		}
		t.Cleanup(s.Tasks.reset) // after the connections
	}
	return target
}
