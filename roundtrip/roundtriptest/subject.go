package roundtriptest

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Subject is a server under test. [Server], [Handler], [Command] and [URL] return one that is
// ready; other fields can be set then. Connect alone is required.
type Subject struct {
	// Connect opens a connection to the server for a user: "" or, with TwoUsers, "other". It closes
	// what it opens with t.Cleanup; the package closes the peer as well. For servers that read and
	// write lines use [Lines]; for servers over HTTP return what clienthttp.New does. Arguments are
	// not mirrored in headers (x-mcp-header); test tools that need that over lines.
	Connect func(t testing.TB, user string) protocol.Peer
	// Eras are those that the server serves; nil means both. The peer of a server that
	// serves legacy revisions must be a [protocol.LegacyPeer].
	Eras []protocol.Era
	// Effects has the effects that the handlers mark; nil means none.
	Effects *Effects

	// Tasks keep the tasks of the server, and end the processes that run them; nil means that
	// flows are not played as tasks.
	Tasks *Tasks

	// TwoUsers means that Connect authenticates as the user.
	TwoUsers bool
	// SingleUse means that the server has a guard: a state that has been used is refused,
	// or gets the recorded outcome.
	SingleUse bool
	// Later lets time pass for the server, at least as long as it is told: a day, or with a
	// server whose Roundtrip.RoundTTL is short, that time. [Attack] runs subtests, so it
	// cannot be called in a bubble of testing/synctest. Nil: expired states are not tested.
	Later func(time.Duration)
	// Lossy means that an SDK decodes answers before the server's own checks see them, so
	// that members that are repeated, or in another case, cannot be recognized.
	Lossy bool

	// Browser returns a browser in which the user of a connection is logged in to the pages of the
	// server. [Run] then also plays flows with clients that show only links, and nothing, which
	// needs a roundtrip.Options.Page; [Attack] attacks the links. Nil: there is no page.
	Browser func(user string) *http.Client

	// reasons has what the server says of its own mistakes, nil if that is not known.
	reasons *reasons
}

func (s *Subject) servesEra(era protocol.Era) bool {
	return s.Eras == nil || slices.Contains(s.Eras, era)
}

// forJudge returns the subject as package attack takes it. What is connected is closed at the end
// of t.
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
