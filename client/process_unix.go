//go:build unix

package client

import (
	"os/exec"
	"syscall"
)

// startOwnGroup has a process begin a group, to which its children belong.
func startOwnGroup(cmd *exec.Cmd) {
	attr := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr
	}
	attr.Setpgid = true
	cmd.SysProcAttr = &attr
}

// signalGroup sends a signal to a process that began a group, and to its children.
func signalGroup(pid int, s syscall.Signal) error { return syscall.Kill(-pid, s) }
