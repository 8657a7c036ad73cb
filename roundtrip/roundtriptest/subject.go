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
	// Connect opens a connection to the server on behalf of a user, "" or,
	// where TwoUsers says that the server tells users apart, "other". What it
	// opens it closes with t.Cleanup; the kit closes the peer as well. [Lines]
	// makes one for servers that read and write lines; for servers over HTTP it
	// returns what clienthttp.New does. Arguments that are mirrored in headers
	// (x-mcp-header) are not; test such tools over lines.
	Connect func(t testing.TB, user string) protocol.Peer
	// Eras are those that the server serves, nil: both. The peer of a server
	// that serves legacy revisions must be a [protocol.LegacyPeer].
	Eras []protocol.Era
	// Effects are those that the handlers mark, nil: none.
	Effects *Effects

	// TwoUsers says that Connect heeds the user.
	TwoUsers bool
	// SingleUse says that the server has a guard: a state that has been used is
	// refused, or gets the outcome that it had.
	SingleUse bool
	// Later lets time pass for the server; in a bubble of testing/synctest it is
	// time.Sleep. Nil: nobody can wait for a state to expire.
	Later func(time.Duration)
	// Lossy says that the host has decoded answers before the server's own
	// checks see them, as some SDKs do, so that members that are there twice, or
	// in another case, cannot be told apart from those that ought to be there.
	Lossy bool
}

// Lines returns a Connect for servers that read and write lines of JSON. Each
// connection has its own call of serve, which must return when r ends; when the
// server's package also wants to be told to end, ctx ends then, too. An error
// other than that of ctx, or of a stream that has ended, fails the test.
func Lines(serve func(ctx context.Context, r io.ReadCloser, w io.WriteCloser) error) func(testing.TB, string) protocol.Peer {
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
			_ = stream.Close() // the pipes have nothing more to say
			_ = toServer.Close()
			cancel()
			err := <-ended
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("roundtriptest: serve: %v", err)
			}
		})
		return stream
	}
}

func (s *Subject) servesEra(era protocol.Era) bool {
	return s.Eras == nil || slices.Contains(s.Eras, era)
}

// allCapabilities is what a client declares that can be asked anything.
func allCapabilities() *protocol.ClientCapabilities {
	return &protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{Form: true, URL: true},
		Sampling:    &protocol.SamplingCapability{Tools: true},
		Roots:       &protocol.RootsCapability{},
	}
}
