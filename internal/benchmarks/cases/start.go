package cases

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/benchmarks/measure"
	"github.com/rondo-mcp/rondo/internal/benchmarks/peers"
	"github.com/rondo-mcp/rondo/internal/benchmarks/wire"
)

const everything = "github.com/rondo-mcp/rondo/examples/everything"

// Start is the example with one of each: the size of the program, with and
// without tables for debuggers, and the time from its start to its first
// answer over standard input and output. Cleanup removes the programs.
func Start() (list []measure.Case, cleanup func(), err error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, nil, err
	}
	cleanup = func() { _ = os.RemoveAll(dir) }
	for _, kind := range []struct{ row, ldflags string }{{"examples/everything", ""},
		{"stripped", "-s -w"}} {
		program := filepath.Join(dir, strings.ReplaceAll(kind.row, "/", "-"))
		if out, err := exec.Command("go", "build", "-trimpath", "-ldflags", kind.ldflags, "-o",
			program, everything).CombinedOutput(); err != nil {
			cleanup()
			return nil, nil, fmt.Errorf("%s: %w\n%s", everything, err, out)
		}
		list = append(list, measure.Case{Group: StartGroup, Row: kind.row, Peer: peers.Rondo,
			Run: func(time.Duration) (measure.Sample, error) { return startOne(program) }})
	}
	return list, cleanup, nil
}

func startOne(program string) (measure.Sample, error) {
	info, err := os.Stat(program)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_, err = in.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":` + wire.Meta + "}}\n"))
	line, readErr := bufio.NewReader(out).ReadString('\n')
	took := time.Since(began)
	in.Close()
	if err := errors.Join(err, readErr, cmd.Wait()); err != nil {
		return nil, err
	}
	if !strings.Contains(line, `"supportedVersions"`) {
		return nil, fmt.Errorf("the first answer is %s", line)
	}
	return measure.Sample{measure.Time: float64(took), measure.Size: float64(info.Size())}, nil
}
