package roundtriptest

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Subject is a server under test. Connect alone is required.
type Subject struct {
	// Connect opens a connection to the server for a user: "" or, with TwoUsers,
	// "other". It closes what it opens with t.Cleanup; the package closes the peer as
	// well. For servers that read and write lines use [Lines]; for servers over HTTP
	// return what clienthttp.New does. Arguments are not mirrored in headers
	// (x-mcp-header); test tools that need that over lines.
	Connect func(t testing.TB, user string) protocol.Peer
	// Eras are those that the server serves; nil means both. The peer of a server that
	// serves legacy revisions must be a [protocol.LegacyPeer].
	Eras []protocol.Era
	// Effects has the effects that the handlers mark; nil means none.
	Effects *Effects

	// TwoUsers says that Connect authenticates as the user.
	TwoUsers bool
	// SingleUse says that the server has a guard: a state that has been used is refused,
	// or gets the recorded outcome.
	SingleUse bool
	// Later lets time pass for the server; in a bubble of testing/synctest it is
	// time.Sleep. Nil: expired states are not tested.
	Later func(time.Duration)
	// Lossy says that an SDK decodes answers before the server's own checks see them, so
	// that members that are repeated, or in another case, cannot be recognized.
	Lossy bool
}

// Lines returns a Connect for servers that read and write lines of JSON. It calls serve
// for each connection. serve must return when r ends, and ctx is cancelled then, too. An
// error of serve fails the test, unless it is that of ctx or of a stream that has ended.
func Lines(serve func(ctx context.Context, r io.ReadCloser,
	w io.WriteCloser) error) func(testing.TB, string) protocol.Peer {
	return func(t testing.TB, _ string) protocol.Peer {
		fromServer, toClient := io.Pipe()
		fromClient, toServer := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			err := serve(ctx, fromClient, toClient)
			_ = toClient.Close() // a pipe closes without error
			ended <- err
		}()
		stream := client.NewStream(fromServer, toServer, nil)
		t.Cleanup(func() {
			_ = stream.Close()
			_ = toServer.Close()
			cancel()
			err := <-ended
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) &&
				!errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("roundtriptest: serve: %v", err)
			}
		})
		return stream
	}
}

func (s *Subject) servesEra(era protocol.Era) bool {
	return s.Eras == nil || slices.Contains(s.Eras, era)
}

// allCapabilities are the capabilities of a client that can be asked everything.
func allCapabilities() *protocol.ClientCapabilities {
	return &protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{Form: true, URL: true},
		Sampling:    &protocol.SamplingCapability{Tools: true},
		Roots:       &protocol.RootsCapability{},
	}
}
