package localpg

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// namespaceIdentity runs programs in a user namespace in which this process's user is called as the ordinary one; false where the kernel or the
// container forbids that.
func namespaceIdentity(ordinary identity) (identity, bool) {
	root := os.Getuid() == 0 // may have to take files back from the user that ran the server where namespaces were denied
	id := identity{uid: os.Getuid(), gid: os.Getgid(), chown: root, apply: func(cmd *exec.Cmd) {
		a := attributes(cmd)
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: ordinary.uid, HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: ordinary.gid, HostID: os.Getgid(), Size: 1}}
		// Without privileges the kernel accepts a group mapping only when setgroups is denied.
		a.GidMappingsEnableSetgroups = false
		a.Credential = &syscall.Credential{Uid: uint32(ordinary.uid), Gid: uint32(ordinary.gid), NoSetGroups: true}
	}}
	// The probe executes a folder: EACCES says that only this last step failed.
	probe := &exec.Cmd{Path: "/", Args: []string{"/"}}
	id.apply(probe)
	return id, errors.Is(probe.Run(), syscall.EACCES)
}
