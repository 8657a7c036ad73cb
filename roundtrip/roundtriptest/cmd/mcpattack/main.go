// Mcpattack calls tools of an MCP server, in any language, and shows what they make of answers
// that are none: era by era, which tools ask, which give after a decline, a cancel, a forged or a
// missing answer the result that they give after an accept, which lose answers, and which ask in
// one era and act without asking in the other.
//
//	go run github.com/rondo-mcp/rondo/roundtrip/roundtriptest/cmd/mcpattack \
//		[-tool NAME=ARGUMENTS]... URL | -- COMMAND [ARGUMENT]...
//
// ARGUMENTS is a JSON object; NAME alone means no arguments. Each tool is called some dozens of
// times, and calls have effects: attack a server whose effects do not matter. Without -tool the
// tools are listed and none is called. Forms are filled from their schemas.
//
// A server behind OAuth gets what the environment variable MCPATTACK_AUTHORIZATION holds in the
// header Authorization, such as "Bearer" and a token.
//
// The exit status is 1 if a tool fails open, loses answers or asks in one era alone, 2 if the
// server could not be judged.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/protocol"
)

// Exit statuses.
const (
	statusHeld = iota
	statusFound
	statusFailed
)

// defaultTimeout bounds one call: no person is waited for.
const defaultTimeout = 20 * time.Second

// exitGrace is how long the command may take to exit, once for each call: some do not notice the
// end of their input, and nothing of theirs is wanted any more.
const exitGrace = 200 * time.Millisecond

// envAuthorization is a variable and no flag: everybody may read the arguments of a process.
const envAuthorization = "MCPATTACK_AUTHORIZATION"

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, out, errOut io.Writer) int {
	c, err := parseArgs(args, errOut)
	if errors.Is(err, flag.ErrHelp) {
		return statusHeld
	}
	if err == nil {
		var found bool
		found, err = c.attackServer(out)
		if err == nil && found {
			return statusFound
		}
	}
	if err != nil {
		fmt.Fprintln(errOut, "mcpattack:", err)
		return statusFailed
	}
	return statusHeld
}

// A config is what the arguments ask for.
type config struct {
	survey *attack.Survey
	tools  []attack.ToolCall
}

func parseArgs(args []string, errOut io.Writer) (*config, error) {
	c := &config{}
	flags := flag.NewFlagSet("mcpattack", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.Usage = func() {
		fmt.Fprintln(errOut, "usage: mcpattack [-tool NAME=ARGUMENTS]... URL | -- COMMAND "+
			"[ARGUMENT]...\nWithout -tool the tools are listed and none is called.\n"+
			envAuthorization+" in the environment is sent to a URL as the header Authorization.")
		flags.PrintDefaults()
	}
	flags.Func("tool", "call the tool with these arguments: `NAME=ARGUMENTS`, a JSON object",
		c.addTool)
	timeout := flags.Duration("timeout", defaultTimeout, "give a call up after this time")
	stderr := flags.Bool("stderr", false, "pass on what the command writes to standard error")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	rest := flags.Args()
	if len(rest) == 0 {
		flags.Usage()
		return nil, errors.New("name a URL, or a command after --")
	}
	header := map[string][]string{}
	if credentials := os.Getenv(envAuthorization); credentials != "" {
		header["Authorization"] = []string{credentials}
	}
	target := &attack.Target{}
	if len(rest) == 1 && isURL(rest[0]) {
		target.Connect = func(string) (protocol.Peer, error) {
			return clienthttp.New(rest[0], &clienthttp.Options{Header: header})
		}
	} else {
		target.Connect = func(string) (protocol.Peer, error) {
			cmd := exec.Command(rest[0], rest[1:]...)
			if *stderr {
				cmd.Stderr = errOut
			}
			return client.Command(cmd, &client.CommandOptions{Grace: exitGrace})
		}
	}
	c.survey = &attack.Survey{Target: target, Timeout: *timeout}
	return c, nil
}

func isURL(arg string) bool {
	return strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://")
}

// addTool reads NAME or NAME=ARGUMENTS.
func (c *config) addTool(text string) error {
	name, arguments, _ := strings.Cut(text, "=")
	if arguments == "" {
		arguments = "{}"
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(arguments), &object); err != nil || object == nil {
		return errors.New("the arguments must be a JSON object")
	}
	c.tools = append(c.tools, attack.ToolCall{Name: name,
		Arguments: json.RawMessage(arguments)})
	return nil
}

// attackServer prints a table, and reports whether it has a finding.
func (c *config) attackServer(out io.Writer) (found bool, err error) {
	r, err := c.survey.Report(c.tools)
	if err != nil {
		return false, err
	}
	if err := r.Print(out); err != nil {
		return false, err
	}
	if r.Failed && !r.Found {
		return false, errors.New("some tools could not be judged")
	}
	return r.Found, nil
}
