package accepthttp

import (
	"context"
	"reflect"
	"strings"
)

// sdkPath begins the paths of the packages of the official SDK.
const sdkPath = "github.com/modelcontextprotocol/go-sdk/"

// WithoutStream returns ctx without the values of the official SDK. By one of them the SDK finds
// the response that a message belongs to. Without it the message goes to the GET stream of the
// session.
func WithoutStream(ctx context.Context) context.Context { return streamless{ctx} }

type streamless struct{ context.Context }

// Value implements [context.Context].
func (c streamless) Value(key any) any {
	if t := reflect.TypeOf(key); t != nil && strings.HasPrefix(t.PkgPath(), sdkPath) {
		return nil
	}
	return c.Context.Value(key)
}
