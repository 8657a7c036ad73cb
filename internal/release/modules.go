package main

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const rootModule = "github.com/rondo-mcp/rondo"

// notReleased are the folders of unreleased modules. All others have the same version.
var notReleased = regexp.MustCompile(`^(internal|examples)/`)

var newestRelease = regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`)

type release struct {
	top     string   // of the checkout
	version string   // such as v0.1.0
	folders []string // of the modules, relative to top, "." first
}

// readRelease finds the modules and the version in the checkout around dir.
func readRelease(dir string) (*release, error) {
	top, err := execute(dir, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	files, err := execute(top, "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	changes, err := os.ReadFile(filepath.Join(top, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	heading := newestRelease.FindSubmatch(changes)
	if heading == nil {
		return nil, errors.New("CHANGELOG.md has no release")
	}
	r := &release{top: top, version: "v" + string(heading[1])}
	for _, file := range strings.Fields(files) {
		if !notReleased.MatchString(file) {
			r.folders = append(r.folders, path.Dir(file))
		}
	}
	slices.Sort(r.folders)
	return r, nil
}

func modulePath(folder string) string { return path.Join(rootModule, folder) }

// The method tags returns the tags of the release. A module's tag begins with its folder.
func (r *release) tags() (tags []string) {
	for _, folder := range r.folders {
		tags = append(tags, path.Join(folder, r.version))
	}
	return tags
}
