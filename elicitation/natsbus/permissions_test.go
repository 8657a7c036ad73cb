package natsbus_test

import (
	"errors"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/elicitation/natsbus"
	"github.com/rondo-mcp/rondo/internal/natstest"
)

// TestDocumentedPermissions has two replicas work with the permissions that the
// package comment lists, and no others.
func TestDocumentedPermissions(t *testing.T) {
	const bucket, prefix = natsbus.DefaultBucket, natsbus.DefaultPrefix
	use := []string{
		prefix + ".>", "$KV." + bucket + ".>",
		"$JS.API.STREAM.INFO.KV_" + bucket, "$JS.API.STREAM.MSG.GET.KV_" + bucket,
	}
	user := func(name string, publish ...string) *natsserver.User {
		return &natsserver.User{Username: name, Password: "x", Permissions: &natsserver.Permissions{
			Publish:   &natsserver.SubjectPermission{Allow: publish},
			Subscribe: &natsserver.SubjectPermission{Allow: []string{"_INBOX.>", prefix + ".>"}},
		}}
	}
	url := natstest.Start(t, t.TempDir(), 0, func(o *natsserver.Options) {
		o.Users = []*natsserver.User{
			user("creator", append(use, "$JS.API.STREAM.CREATE.KV_"+bucket)...),
			user("replica", use...),
			user("stranger", prefix+".>"),
		}
	}).ClientURL()
	as := func(name string, report func(error)) jetstream.JetStream {
		handler := func(_ *nats.Conn, _ *nats.Subscription, err error) { report(err) }
		return natstest.Connect(t, url, nats.UserInfo(name, "x"), nats.ErrorHandler(handler))
	}
	fail := func(err error) { t.Error(err) }
	opts := &natsbus.Options{Failed: fail}
	a, b := listening(t, as("creator", fail), opts), listening(t, as("replica", fail), opts)
	for _, end := range [][2]mortal{{a, b}, {b, a}} {
		if err := end[0].Claim(t.Context(), key, time.Hour); err != nil {
			t.Fatal(err)
		}
		got, err := end[1].Send(t.Context(), key, []byte("hello"))
		if err != nil || string(got) != "hello" {
			t.Errorf("got %q, %v", got, err)
		}
		end[0].Release(key)
		natstest.Eventually(t, "the claim is released", func() bool {
			_, err := end[1].Send(t.Context(), key, nil)
			return err != nil
		})
	}
	denied := func(err error) {
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Error(err)
		}
	}
	impatient := &natsbus.Options{Timeout: natstest.Patience / 100}
	if _, err := natsbus.New(t.Context(), as("stranger", denied), impatient); err == nil {
		t.Error("a stranger is let on the bus")
	}
}
