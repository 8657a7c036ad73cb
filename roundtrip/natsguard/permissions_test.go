package natsguard_test

import (
	"errors"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/rondo-mcp/rondo/internal/natstest"
	"github.com/rondo-mcp/rondo/roundtrip/natsguard"
)

// TestDocumentedPermissions has the guard and the store do everything with the permissions
// that the package comment lists, and no others.
func TestDocumentedPermissions(t *testing.T) {
	const bucket = natsguard.DefaultBucket
	use := []string{
		"$KV." + bucket + ".>",
		"$JS.API.STREAM.INFO.KV_" + bucket, "$JS.API.STREAM.MSG.GET.KV_" + bucket,
	}
	create := append([]string{"$JS.API.INFO", "$JS.API.STREAM.CREATE.KV_" + bucket}, use...)
	inbox := &natsserver.SubjectPermission{Allow: []string{"_INBOX.>"}}
	user := func(name string, publish []string) *natsserver.User {
		return &natsserver.User{Username: name, Password: "x", Permissions: &natsserver.Permissions{
			Publish: &natsserver.SubjectPermission{Allow: publish}, Subscribe: inbox,
		}}
	}
	srv := natstest.Start(t, t.TempDir(), 0, func(o *natsserver.Options) {
		o.Users = []*natsserver.User{
			user("creator", create), user("replica", use), user("stranger", []string{"_INBOX.>"}),
		}
	})
	ctx := t.Context()
	for _, name := range []string{"creator", "replica"} {
		as := []nats.Option{
			nats.UserInfo(name, "x"),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
				t.Errorf("%s: %v", name, err)
			}),
		}
		g := newGuard(t, natstest.Connect(t, srv.ClientURL(), as...), nil)
		for _, step := range []error{
			g.Claim(ctx, name, "", print1, inAnHour()), g.Release(ctx, name),
			g.Claim(ctx, name, "", print1, inAnHour()), g.Commit(ctx, name, []byte("outcome")),
		} {
			if step != nil {
				t.Errorf("%s: %v", name, step)
			}
		}
		if got := spent(t, g.Claim(ctx, name, "", print1, inAnHour())); string(got) != "outcome" {
			t.Errorf("%s: outcome %q", name, got)
		}
		js, opts := natstest.Connect(t, srv.ClientURL(), as...), &natsguard.Options{Bucket: bucket}
		s, err := natsguard.NewStateStore(ctx, js, opts)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := s.Get(ctx, name); !errorsIsGone(err) {
			t.Errorf("%s: a state that there is not: %v", name, err)
		}
		if err := s.Put(ctx, name, "owner", []byte("state"), inAnHour()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := s.Get(ctx, name); err != nil || string(got) != "state" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	denied := nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Error(err)
		}
	})
	js := natstest.Connect(t, srv.ClientURL(), nats.UserInfo("stranger", "x"), denied)
	brief := &natsguard.Options{Timeout: natstest.Patience / 100}
	if _, err := natsguard.New(ctx, js, brief); err == nil {
		t.Error("a stranger gets a guard")
	}
}
