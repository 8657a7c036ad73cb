// Conformance judges the reports of the protocol's official conformance suite about the library.
//
// run.sh fetches the suite, starts the subjects (internal/conformance/everything and
// internal/conformance/everything-client), collects results and starts this program:
//
//	internal/conformance/run.sh            # each leg once
//	internal/conformance/run.sh -n 20      # twenty times in a row
//	internal/conformance/run.sh -u         # write the lists anew
//	internal/conformance/run.sh -s URL server-2025-11-25    # a server that runs already
//
// # Legs and lists
//
// A leg is one side of one revision, such as server-2026-07-28. client-backcompat has the suite's
// tests of clients with servers of 2025-03-26, which had no metadata of protected resources.
// client-extensions has the optional tests: logins without a user. Each leg has a list of the
// checks that must pass, by scenario, id and name, as some checks depend on the situation: a
// scenario may pass without any. A listed check that is missing is a failure, and so is a check
// that fails, warns or is skipped unless the list says so. Exclusions are by name, with a reason.
//
// # Control
//
// After the runs the server is stopped, the client replaced by a program that does nothing, and the
// suite runs once more. Then each listed scenario must fail, else it misses broken subjects.
//
// # The program
//
//	conformance [-update] LISTS RESULTS
//
// LISTS is the directory of the lists, LEG.txt for each leg. RESULTS holds the suite's output:
// LEG/run-N for each run and LEG/control for the run without a subject. The last line of output is
// the sum; the status is 0 without failures, else 1.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	update := flag.Bool("update", false, "write the lists anew from the first run before judging")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: conformance [-update] LISTS RESULTS")
		os.Exit(2)
	}
	failed, err := judge(flag.Arg(0), flag.Arg(1), *update)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

// judge prints the verdict on every leg and returns the number of failures.
func judge(lists, results string, update bool) (failed int, err error) {
	legs, err := filepath.Glob(filepath.Join(results, "*"))
	if err != nil {
		return 0, err
	}
	if len(legs) == 0 {
		return 0, fmt.Errorf("%s holds no results", results)
	}
	passed := 0
	for _, dir := range legs {
		l := leg{name: filepath.Base(dir), dir: dir}
		if err := l.load(lists, update); err != nil {
			return 0, err
		}
		if err := l.judge(); err != nil {
			return 0, err
		}
		passed, failed = passed+l.passed, failed+l.failed
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	return failed, nil
}

type leg struct {
	name, dir      string
	list           *List
	passed, failed int
}

func (l *leg) load(lists string, update bool) error {
	file := filepath.Join(lists, l.name+".txt")
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if l.list, err = ParseList(string(raw)); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if !update {
		return nil
	}
	results, err := l.read("run-1")
	if err != nil {
		return err
	}
	l.list.Update(results)
	return os.WriteFile(file, l.list.Text(), 0o644)
}

func (l *leg) read(run string) (Results, error) {
	results := os.DirFS(filepath.Join(l.dir, run))
	return ReadResults(results, strings.HasPrefix(l.name, "server-"))
}

func (l *leg) judge() error {
	runs, err := filepath.Glob(filepath.Join(l.dir, "run-*"))
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("%s holds no runs", l.dir)
	}
	for n := range runs {
		run := fmt.Sprintf("run-%d", n+1)
		results, err := l.read(run)
		if err != nil {
			return err
		}
		l.report(run, "checks", l.list.Judge(results))
	}
	results, err := l.read("control")
	if err != nil {
		return err
	}
	l.report("control", "scenarios fail without a subject", l.list.JudgeControl(results))
	return nil
}

func (l *leg) report(run, what string, v Verdict) {
	fmt.Printf("%s %s: %d %s, %d failed\n", l.name, run, v.Passed, what, len(v.Failed))
	for _, failure := range v.Failed {
		fmt.Printf("    %s\n", failure)
	}
	l.passed += v.Passed
	l.failed += len(v.Failed)
}
