//go:build unix

package localpg

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
)

// identity is the user that the server's programs run as. PostgreSQL refuses to run as root, and initdb refuses a user id that has no name, which
// is what containers often have; both are cured without creating a user.
type identity struct {
	uid, gid int
	// apply prepares a command to run as this user.
	apply func(cmd *exec.Cmd)
	// chown is set when the files must belong to uid in the eyes of this process, too.
	chown bool
}

// ownIdentity runs programs as the user of this process.
func ownIdentity() identity {
	return identity{uid: os.Getuid(), gid: os.Getgid(), apply: func(*exec.Cmd) {}}
}

// chooseIdentity decides how to run the server:
//
//  1. an ordinary user with a name runs it as itself;
//  2. root, or a user without a name, runs it in a user namespace that maps its own id to that of an ordinary user: nothing needs another owner,
//     and it works inside folders that only root may enter;
//  3. where user namespaces are denied (many containers), root starts it as "postgres" or "nobody" and gives it the data folder.
func chooseIdentity() (identity, error) {
	root := os.Geteuid() == 0
	if _, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil && !root {
		return ownIdentity(), nil
	}
	ordinary, err := ordinaryUser()
	if err != nil {
		return identity{}, err
	}
	if id, ok := namespaceIdentity(ordinary); ok {
		return id, nil
	}
	if root {
		return credentialIdentity(ordinary), nil
	}
	return identity{}, fmt.Errorf("user id %d has no name, user namespaces are denied here, and PostgreSQL does not run without one of them: "+
		"run as a user with an entry in /etc/passwd, or set DATABASE_URL", os.Getuid())
}

// ordinaryUser returns a user with a name that is not root.
func ordinaryUser() (identity, error) {
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			if uid != 0 {
				return identity{uid: uid, gid: gid}, nil
			}
		}
	}
	return identity{}, fmt.Errorf("PostgreSQL does not run as root, and this system has no user \"postgres\" or \"nobody\" to run it as: " +
		"create one (useradd --system postgres) or set DATABASE_URL")
}

// own gives the tree at path to the server's user where that is needed.
func (id identity) own(path string) error {
	if !id.chown {
		return nil
	}
	return filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, id.uid, id.gid)
	})
}
