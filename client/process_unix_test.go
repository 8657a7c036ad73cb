//go:build unix

package client_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/client"
)

// A process group ends with its process: a server's children end when it is closed or exits.
func TestAGroupEndsWithItsProcess(t *testing.T) {
	for name, script := range map[string]string{
		"closed":          "sleep 1000 & echo $! >pid; cat >/dev/null",
		"deaf":            "sleep 1000 & echo $! >pid; sleep 1000",
		"exits by itself": "sleep 1000 >/dev/null 2>/dev/null & echo $! >pid",
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", script)
			cmd.Dir = t.TempDir()
			p, err := client.Command(cmd, &client.CommandOptions{
				OwnGroup: true, Grace: 100 * time.Millisecond,
			})
			noError(t, err)
			child := 0
			for range 500 {
				text, _ := os.ReadFile(filepath.Join(cmd.Dir, "pid"))
				if _, err := fmt.Sscanln(string(text), &child); err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if child == 0 {
				t.Fatal("the process started no child")
			}
			if name == "exits by itself" {
				<-p.Done()
			}
			_ = p.Close()
			for range 500 {
				if syscall.Kill(child, 0) == syscall.ESRCH {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Error("the child of the process goes on")
			_ = syscall.Kill(child, syscall.SIGKILL)
		})
	}
}
