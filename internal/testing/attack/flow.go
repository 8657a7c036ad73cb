package attack

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Target is a server under test; see roundtriptest.Subject. Only Connect is required.
type Target struct {
	Connect func(user string) (protocol.Peer, error)
	Eras    []protocol.Era
	Effects *Effects
	// TakeReasons returns the server's new internal errors. Nil: they are unknown.
	TakeReasons func() []string

	Tasks *Tasks // the server's tasks; nil: no tasks

	TwoUsers  bool
	SingleUse bool
	Later     func(time.Duration)
	Lossy     bool
	Browser   func(user string) Browser

	Timeout time.Duration // of one flow; 0: a minute
}

func (s *Target) timeout() time.Duration { return cmp.Or(s.Timeout, time.Minute) }

func (s *Target) ServesEra(era protocol.Era) bool {
	return s.Eras == nil || slices.Contains(s.Eras, era)
}

// A Flow is a request, its answers, and the expected result; see roundtriptest.Flow.
type Flow struct {
	Request      Request
	Answers      map[string]Answer
	Want         string
	Fails        string
	Never        []string
	Capabilities *protocol.ClientCapabilities

	// Fill answers questions that Answers lacks. Nil: there must be no such questions.
	Fill func(protocol.InputRequest) (json.RawMessage, error)

	refuse *refusing // replaces the flow's answer to one question; nil: no replacement
}

func (f Flow) clientCapabilities() *protocol.ClientCapabilities {
	return cmp.Or(f.Capabilities, &protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{Form: true, URL: true},
		Sampling:    &protocol.SamplingCapability{Tools: true},
		Roots:       &protocol.RootsCapability{},
	})
}

type Request struct {
	Method, Target string
	Arguments      any
}

// An Answer answers one question. Next answers its repetition.
type Answer struct {
	Kinds  []protocol.InputKind // kinds of questions that it answers
	Result json.RawMessage
	Err    error
	Next   *Answer
	// Optional means that the tool may continue without the answer.
	Optional bool
}
