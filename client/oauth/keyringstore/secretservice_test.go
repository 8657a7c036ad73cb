//go:build keyring

package keyringstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/client/oauth"
	"github.com/rondo-mcp/rondo/client/oauth/keyringstore"
	"github.com/rondo-mcp/rondo/internal/testing/oauthtest"
	"github.com/rondo-mcp/rondo/internal/testing/proctest"
)

// untilInputEnds runs a program until the standard input ends, which is also when the test dies. In
// front of the program is a file with its input.
const untilInputEnds = `in="$0"; "$@" <"$in" >/dev/null & id=$!
echo started; cat >/dev/null; kill $id; wait $id; echo ended`

// A desktop has a Secret Service, which is GNOME's of Debian's package, on a bus of its own.
type desktop struct {
	t    *testing.T
	root string // folder of the packages
	dir  string
	env  []string
}

func newDesktop(t *testing.T) *desktop {
	t.Helper()
	root := proctest.UnpackDebs(t, "gnome-keyring", "gnome-keyring", "dbus-daemon")
	dir, err := os.MkdirTemp("", "keyring") // the name of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	d := &desktop{t: t, root: root, dir: dir, env: []string{proctest.DebLibraries(t, root),
		"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "XDG_DATA_HOME=" + filepath.Join(dir, "data"),
		"DBUS_SESSION_BUS_ADDRESS=unix:path=" + filepath.Join(dir, "bus")}}
	const bus = `<busconfig><type>session</type><listen>unix:path=%s</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/>
<allow own="*"/></policy></busconfig>`
	d.write("bus.conf", fmt.Sprintf(bus, filepath.Join(dir, "bus")))
	d.write("empty", "")
	d.write("password", "of the person")
	d.start("empty", "dbus-daemon", "--nofork", "--config-file="+filepath.Join(dir, "bus.conf"))
	return d
}

func (d *desktop) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desktop) start(input, program string, args ...string) *proctest.Process {
	d.t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", untilInputEnds, filepath.Join(d.dir, input),
		filepath.Join(d.root, "usr/bin", program)}, args...)...)
	cmd.Env = append(os.Environ(), d.env...)
	p := proctest.Start(d.t, cmd)
	if line := p.Line(); line != "started" {
		d.t.Fatal(line)
	}
	return p
}

// stop ends a program, and returns when it has ended.
func (d *desktop) stop(p *proctest.Process) {
	d.t.Helper()
	p.In.Close()
	d.wantLine("ended", p)
}

// startKeyring starts the Secret Service, unlocked or not.
func (d *desktop) startKeyring(more ...string) *proctest.Process {
	d.t.Helper()
	return d.start("password", "gnome-keyring-daemon", append(more, "--foreground",
		"--components=secrets", "--control-directory="+filepath.Join(d.dir, "control"))...)
}

// secretService is the name on the bus, which the error has if nobody owns it.
const secretService = "org.freedesktop.secrets"

const (
	programFolder   = "RONDO_KEYRING_FOLDER"
	programEndpoint = "RONDO_KEYRING_ENDPOINT"
	programTask     = "RONDO_KEYRING_TASK"
)

// program starts a program with a login in the folder.
func (d *desktop) program(endpoint, task string) *proctest.Process {
	d.t.Helper()
	cmd := proctest.Self(d.t, programFolder+"="+filepath.Join(d.dir, "logins"),
		programEndpoint+"="+endpoint, programTask+"="+task)
	cmd.Env = append(cmd.Env, d.env...)
	return proctest.Start(d.t, cmd)
}

func (d *desktop) wantLine(want string, programs ...*proctest.Process) {
	d.t.Helper()
	for _, p := range programs {
		if line := p.Line(); !strings.Contains(line, want) {
			d.t.Errorf("a program wrote %q, want %q", line, want)
		}
	}
}

// runAsProgram runs the program, if this is one.
func runAsProgram() bool {
	folder, endpoint := os.Getenv(programFolder), os.Getenv(programEndpoint)
	if folder == "" {
		return false
	}
	fmt.Println(runTask(folder, endpoint, os.Getenv(programTask)))
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}

func runTask(folder, endpoint, task string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var store *oauth.FileStore
	err := errors.New(secretService)
	for err != nil && strings.Contains(err.Error(), secretService) && ctx.Err() == nil {
		store, err = keyringstore.New(ctx, folder, "Notes")
		if task == "once" {
			break
		} // else it may have only just been started
	}
	if err != nil {
		return err
	}
	login, err := oauth.New(endpoint, &oauth.Options{Store: store, Interaction: &oauth.Loopback{
		Browse: func(_ context.Context, page string) error {
			go func() {
				if shown, err := http.Get(page); err == nil {
					shown.Body.Close()
				}
			}()
			return nil
		}}})
	if err == nil && task == "logout" {
		return login.Logout(ctx)
	}
	if err == nil {
		err = call(ctx, endpoint, login)
	}
	return err
}

// call sends a request, and sends it again after a login.
func call(ctx context.Context, endpoint string, login *oauth.Source) error {
	for attempt := 1; ; attempt++ {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err != nil {
			return err
		}
		out := clienthttp.Outgoing{Method: http.MethodPost, URL: r.URL, RPC: "tools/list"}
		sent, err := login.Credentials(ctx, out)
		if err != nil {
			return err
		}
		for name, values := range sent {
			r.Header[name] = values
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return nil
		}
		again, err := login.Refused(ctx, clienthttp.Refusal{Outgoing: out, Sent: sent,
			Status: response.StatusCode, Header: response.Header, Attempt: attempt})
		if err != nil || !again {
			return fmt.Errorf("status %d: %w", response.StatusCode, err)
		}
	}
}

// TestSecretService: programs that start at once create one key and log in once. The login outlives
// them and the keyring's daemon, and ends with Logout.
func TestSecretService(t *testing.T) {
	d := newDesktop(t)
	keyring := d.startKeyring("--unlock")
	as := oauthtest.NewServer(t, nil)
	resource := oauthtest.NewResource(t, &oauthtest.ResourceOptions{
		Servers: []*oauthtest.Server{as}, Scopes: []string{"read"}})
	var programs []*proctest.Process
	for range 8 {
		programs = append(programs, d.program(resource.URL, ""))
	}
	d.wantLine("<nil>", programs...)
	for _, p := range programs {
		p.Kill()
	}
	d.stop(keyring)
	d.startKeyring("--unlock")
	d.wantLine("<nil>", d.program(resource.URL, ""))
	if n := as.Count(oauthtest.Authorize); n != 1 {
		t.Errorf("%d logins, want 1", n)
	}
	if n := len(records(t, d)); n < 3 {
		t.Errorf("%d records, want those of a login, its pointer and a registration", n)
	}
	d.wantLine("<nil>", d.program(resource.URL, "logout"))
	if n := len(records(t, d)); n != 1 {
		t.Errorf("%d records are left, want that of the registration", n)
	}
	if n := as.Families(); n != 0 {
		t.Errorf("%d logins are left", n)
	}
}

func records(t *testing.T, d *desktop) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(d.dir, "logins", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range all {
		if !strings.HasSuffix(file, ".lock") {
			found = append(found, file)
		}
	}
	return found
}

// TestNoSecretService: without one, and with one that is locked and cannot ask, there is no store.
func TestNoSecretService(t *testing.T) {
	d := newDesktop(t)
	d.wantLine("The name "+secretService, d.program("https://mcp.example.com/mcp", "once"))
	keyring := d.startKeyring("--unlock") // creates a keyring
	as := oauthtest.NewServer(t, nil)
	resource := oauthtest.NewResource(t, &oauthtest.ResourceOptions{
		Servers: []*oauthtest.Server{as}})
	d.wantLine("<nil>", d.program(resource.URL, ""))
	d.stop(keyring)
	d.startKeyring()
	d.wantLine("failed to unlock", d.program(resource.URL, ""))
}
