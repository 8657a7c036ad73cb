package keyringstore

import (
	"context"

	"github.com/rondo-mcp/rondo/client/oauth"
)

// NewWith is New with a keyring.
func NewWith(ctx context.Context, get func(service, user string) (string, error),
	set func(service, user, text string) error, folder, service string) (*oauth.FileStore, error) {
	return open(ctx, osKeyring{get, set}, folder, service)
}
