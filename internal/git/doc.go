// Package git is the git program behind one small door, for working trees that strangers may have written.
//
// Promises: no program and no setting of a repository is used. Each call gets a private directory that stands in for
// the repository's common directory: links to its objects, refs and logs, beside a configuration and attributes of our
// own. So hooks, filters, drivers, monitors, aliases, includes, ssh commands, url rewrites and whatever keys git will
// learn to read are never seen, not only the known ones. Files of other users, alternates and links inside of .git are
// refused, but for the one directory of objects that Borrow was told and OpenBorrowing is told again: what the
// repository says of it counts for nothing. The system's and the user's configuration and the service's environment are
// not seen either. Only the protocols of Config are spoken, redirects are not followed, submodules and large file
// storage are not touched.
//
// A secret is in no argument, URL, file, environment, log or error: it passes through pipes of a private directory
// that is gone after the call, or stays in an ssh agent of ours.
//
// Every call ends with its context, with all that it started, and what it prints, fetches and checks out has a limit.
// Errors that callers branch on are in errors.go, each tells what to do next. Names, messages and contents of a
// repository are hostile data: they are passed on as data and checked where they become names.
//
// Keeper takes snapshots of a working tree, repository or not, and restores them elsewhere. It reads .git as plain
// files and starts no git inside of the tree.
//
// A Git may be used by several goroutines; a Repo and a Keeper by one at a time, while no one else writes the tree.
package git
