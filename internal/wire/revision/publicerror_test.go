package revision_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/revision"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestFromHidesWhatIsNotForClients(t *testing.T) {
	public := protocol.Errorf(protocol.CodeInvalidParams, "invalid params: n")
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"a protocol error", public, public.Message},
		{"a wrapped one", fmt.Errorf("open /etc/x: %w", public), public.Message},
		{"any other", errors.New("open /etc/x"), "internal error"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := revision.PublicError(test.err).Message; got != test.want {
				t.Errorf("the client gets %q, want %q", got, test.want)
			}
		})
	}
}

// TestInternalErrorsAreNotShared: revisions change codes in place of some errors.
func TestInternalErrorsAreNotShared(t *testing.T) {
	revision.InternalError().Message = "changed"
	if got := revision.InternalError().Message; got != "internal error" {
		t.Errorf("the next internal error is %q", got)
	}
}
