package gosdk

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// An Identifier tells what the token of a request says, once it has verified it.
type Identifier func(r *http.Request) (subject string, scopes []string, expiry time.Time, err error)

// Protect puts the middleware of the library before h, with identify as its verifier.
func Protect(h http.Handler, identify Identifier) http.Handler {
	verify := func(_ context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
		subject, scopes, expiry, err := identify(r)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
		}
		return &auth.TokenInfo{UserID: subject, Scopes: scopes, Expiration: expiry}, nil
	}
	return auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{
		ResourceMetadataURL: "https://mcp.example.com/.well-known/oauth-protected-resource/mcp",
	})(h)
}
