package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// A Status is a check's outcome, in the suite's words. Others are FAILURE and WARNING.
type Status string

const (
	Success Status = "SUCCESS"
	Skipped Status = "SKIPPED"
	Info    Status = "INFO"
)

// A Check is one observation by the suite.
type Check struct {
	ID           string
	Name         string
	Description  string
	Status       Status
	ErrorMessage string
}

// key returns the check's name. In the list a name is one word.
func (c Check) key(scenario string) Key {
	name := strings.Join(strings.Fields(c.Name), "_")
	return Key{scenario, c.ID, cmp.Or(name, "-")}
}

// Results are the checks of one run, by scenario.
type Results map[string][]Check

// stamp matches the suffix of a scenario's directory.
var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z$`)

// ReadResults reads every checks.json of a leg's run. Directories name the scenarios, with a prefix
// for servers. An empty directory has empty results.
func ReadResults(dir fs.FS, server bool) (Results, error) {
	results := Results{}
	err := fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		isRun := err == nil && entry.IsDir() && stamp.MatchString(name)
		if err != nil || !isRun && (entry.IsDir() || path.Base(name) != "checks.json") {
			return err
		}
		folder := name
		if !isRun {
			folder = path.Dir(name)
		}
		scenario := stamp.ReplaceAllString(folder, "")
		if server {
			scenario = strings.TrimPrefix(scenario, "server-")
		}
		if isRun {
			if results[scenario] == nil {
				results[scenario] = []Check{} // the scenario ran, but may have been cut short
			}
			return nil
		}
		raw, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		var checks []Check
		if err := json.Unmarshal(raw, &checks); err != nil {
			return fmt.Errorf("results: %s: %w", name, err)
		}
		results[scenario] = append(results[scenario], checks...)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("results: the suite wrote none: %w", err)
	}
	return results, err
}
