// Mcpattack calls tools of an MCP server, in any language, with refusals and invalid answers, and
// with the attacks of package roundtriptest. It reports, for each era, which tools ask, which
// return the result of an accept after a decline, cancel or forged answer, which lose answers, and
// which ask in one era but act without asking in the other.
//
//	go run github.com/rondo-mcp/rondo/roundtrip/roundtriptest/cmd/mcpattack \
//	  [-tool NAME=ARGUMENTS]... URL | -- COMMAND [ARGUMENT]...
//
// ARGUMENTS is a JSON object; NAME alone means no arguments. Each tool is called dozens of times,
// and calls have effects: use a test server. Without -tool the tools are only listed. Forms are
// filled from their schemas.
//
// The environment variable MCPATTACK_AUTHORIZATION, such as "Bearer" and a token, is sent as the
// Authorization header. MCPATTACK_OTHER_AUTHORIZATION, another user's, enables the attack "other
// user", and -single-use those on servers whose states work once.
//
// Exit status: 1 if a tool fails open, loses answers or asks in one era only, 2 if unable to judge.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/internal/testing/attack"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	statusHeld = iota
	statusFound
	statusFailed
)

const defaultTimeout = 20 * time.Second // per call: no person is waited for

// exitGrace is the command's time to exit, per call: some ignore the end of input.
const exitGrace = 200 * time.Millisecond

// Not flags, because process arguments are public.
const (
	envAuthorization = "MCPATTACK_AUTHORIZATION"
	envOther         = "MCPATTACK_OTHER_AUTHORIZATION"
)

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

type config struct {
	target *attack.Target
	tools  []attack.Request
}

func parseArgs(args []string, errOut io.Writer) (*config, error) {
	c := &config{target: &attack.Target{}}
	flags := flag.NewFlagSet("mcpattack", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.Usage = func() {
		fmt.Fprintln(errOut, "usage: mcpattack [-tool NAME=ARGUMENTS]... URL | -- COMMAND "+
			"[ARGUMENT]...\nWithout -tool the tools are listed and none is called.\n"+
			envAuthorization+" in the environment is sent to a URL as the header Authorization.\n"+
			envOther+" is that of another user.")
		flags.PrintDefaults()
	}
	flags.Func("tool", "call the tool with these arguments: `NAME=ARGUMENTS`, a JSON object",
		c.addTool)
	flags.DurationVar(&c.target.Timeout, "timeout", defaultTimeout,
		"time limit of a call")
	flags.BoolVar(&c.target.SingleUse, "single-use", false, "states of the server work once")
	stderr := flags.Bool("stderr", false, "pass on what the command writes to standard error")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	rest := flags.Args()
	if len(rest) == 0 {
		flags.Usage()
		return nil, errors.New("name a URL, or a command after --")
	}
	if len(rest) == 1 && isURL(rest[0]) {
		c.target.TwoUsers = os.Getenv(envOther) != ""
		c.target.Connect = func(user string) (protocol.Peer, error) {
			header, credentials := map[string][]string{}, os.Getenv(envAuthorization)
			if user != "" {
				credentials = os.Getenv(envOther)
			}
			if credentials != "" {
				header["Authorization"] = []string{credentials}
			}
			return clienthttp.New(rest[0], &clienthttp.Options{Header: header})
		}
		return c, nil
	}
	c.target.Connect = func(string) (protocol.Peer, error) {
		cmd := exec.Command(rest[0], rest[1:]...)
		if *stderr {
			cmd.Stderr = errOut
		}
		return client.Command(cmd, &client.CommandOptions{Grace: exitGrace})
	}
	return c, nil
}

func isURL(arg string) bool {
	return strings.HasPrefix(arg, "http://") || strings.HasPrefix(arg, "https://")
}

func (c *config) addTool(text string) error {
	name, arguments, _ := strings.Cut(text, "=")
	if arguments == "" {
		arguments = "{}"
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(arguments), &object); err != nil || object == nil {
		return errors.New("the arguments must be a JSON object")
	}
	c.tools = append(c.tools, attack.Request{Method: protocol.MethodCallTool, Target: name,
		Arguments: json.RawMessage(arguments)})
	return nil
}

// attackServer prints a line for each tool and era, and reports whether there is a finding.
func (c *config) attackServer(out io.Writer) (found bool, err error) {
	asks := map[string][]protocol.Era{} // eras in which a tool asks
	acts := map[string][]protocol.Era{} // and acts unasked
	judged := map[string]bool{}
	var failed []error
	served := 0
	for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
		names, err := c.listTools(era)
		if err != nil {
			printLine(out, era, "(not served)", err.Error())
			continue
		}
		served++
		for _, name := range names {
			if len(c.tools) == 0 {
				printLine(out, era, name, "not called: name it with -tool")
			}
		}
		for _, tool := range c.tools {
			if !slices.Contains(names, tool.Target) {
				printLine(out, era, tool.Target, "(not listed)")
				continue
			}
			judged[tool.Target] = true
			v, err := c.target.Judge(era, tool)
			switch {
			case errors.Is(err, attack.ErrAsksAgain):
				found = true
				printLine(out, era, tool.Target, "LOST: "+err.Error())
			case err != nil:
				failed = append(failed, err)
				printLine(out, era, tool.Target, "not judged: "+err.Error())
			default:
				found = printVerdict(out, era, tool.Target, v) || found
				if v.Asks > 0 {
					asks[tool.Target] = append(asks[tool.Target], era)
				} else if v.Complete {
					acts[tool.Target] = append(acts[tool.Target], era)
				} else {
					failed = append(failed, fmt.Errorf("%s: %s", tool.Target, v.Result))
				}
			}
		}
	}
	if served == 0 {
		return false, errors.New("the server serves neither era")
	}
	for _, tool := range c.tools {
		if !judged[tool.Target] {
			failed = append(failed, fmt.Errorf("%s is not listed", tool.Target))
		}
		if len(asks[tool.Target]) > 0 && len(acts[tool.Target]) > 0 {
			found = true
			printLine(out, acts[tool.Target][0], tool.Target, "OPEN: acts without asking, but "+
				"asks in "+eraName(asks[tool.Target][0]))
		}
	}
	if found {
		return true, nil
	}
	return false, errors.Join(failed...)
}

func printVerdict(out io.Writer, era protocol.Era, tool string, v *attack.Verdict) (open bool) {
	summary := fmt.Sprintf("asks %d, held %d of %d", v.Asks, v.Tried-len(v.Open), v.Tried)
	switch {
	case !v.Complete:
		summary = fmt.Sprintf("asks %d, no result: %s", v.Asks, v.Result)
	case v.Asks == 0:
		summary = "asks nothing"
	}
	printLine(out, era, tool, summary)
	switches := strings.NewReplacer("Subject.SingleUse", "-single-use",
		"Subject.TwoUsers", envOther,
		"Subject.Later is not set, and this attack needs it", "it takes a test with Subject.Later")
	for _, what := range v.Skipped {
		printLine(out, era, tool, "  not tried: "+switches.Replace(what))
	}
	for _, what := range v.Open {
		printLine(out, era, tool, "  OPEN: "+what)
	}
	return len(v.Open) > 0
}

func printLine(out io.Writer, era protocol.Era, tool, text string) {
	fmt.Fprintf(out, "%s  %s  %s\n", eraName(era), oneLine(tool, 60), oneLine(text, 240))
}

func eraName(era protocol.Era) string {
	if era == protocol.Modern {
		return "2026-07-28"
	}
	return "2025-11-25"
}

// listTools names the tools shown to a client that declares all capabilities.
func (c *config) listTools(era protocol.Era) (names []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.target.Timeout)
	defer cancel()
	peer, err := c.target.Connect("")
	if err != nil {
		return nil, err
	}
	defer peer.Close() // a failed client leaves it open
	asked, err := client.New(peer, &client.Options{Era: era,
		Manual: &protocol.ClientCapabilities{Roots: &protocol.RootsCapability{},
			Elicitation: &protocol.ElicitationCapability{Form: true, URL: true},
			Sampling:    &protocol.SamplingCapability{Tools: true}},
		RelayElicit: func(context.Context, json.RawMessage) (*protocol.ElicitResult, error) {
			return nil, errors.New("questions are not answered while tools are listed")
		},
	})
	if err != nil {
		return nil, err
	}
	defer asked.Close() // the connection is no longer needed
	for tool, err := range asked.Tools(ctx) {
		if err != nil {
			return nil, err
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

// oneLine returns a server's text as one printable line of at most limit characters.
func oneLine(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return text
}
