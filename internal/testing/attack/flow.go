package attack

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// A Target is a server under test. Connect alone is required. The fields have the meaning that
// the documentation of roundtriptest.Subject gives them.
type Target struct {
	Connect func(user string) (protocol.Peer, error)
	Eras    []protocol.Era
	Effects *Effects
	// TakeReasons returns what the server said of its own mistakes since the last call: a client
	// is told of an internal error and no more. Nil: nothing is known.
	TakeReasons func() []string

	// Tasks are those of the server, nil: it has none.
	Tasks *Tasks

	TwoUsers  bool
	SingleUse bool
	Later     func(time.Duration)
	Lossy     bool
	Browser   func(user string) Browser

	Timeout time.Duration // bounds a flow that hangs, 0: a minute
}

func (s *Target) timeout() time.Duration { return cmp.Or(s.Timeout, time.Minute) }

// ServesEra reports whether the server serves an era.
func (s *Target) ServesEra(era protocol.Era) bool {
	return s.Eras == nil || slices.Contains(s.Eras, era)
}

// A Flow is a request, the answers of the person by key, and the expected result. The fields have
// the meaning that the documentation of roundtriptest.Flow gives them.
type Flow struct {
	Request      Request
	Answers      map[string]Answer
	Want         string
	Fails        string
	Never        []string
	Capabilities *protocol.ClientCapabilities

	// Fill answers the questions that Answers has nothing for. Nil: there must be none.
	Fill func(protocol.InputRequest) (json.RawMessage, error)
}

// clientCapabilities are those of a client that can be asked everything, unless others are set.
func (f Flow) clientCapabilities() *protocol.ClientCapabilities {
	if f.Capabilities != nil {
		return f.Capabilities
	}
	return &protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{Form: true, URL: true},
		Sampling:    &protocol.SamplingCapability{Tools: true},
		Roots:       &protocol.RootsCapability{},
	}
}

// A Request is what starts a flow.
type Request struct {
	Method, Target string
	Arguments      any
}

// An Answer is what a person answers to one question, and Next to its repetition.
type Answer struct {
	Kinds  []protocol.InputKind // of the questions that it is for
	Result json.RawMessage
	Err    error
	Next   *Answer
}
