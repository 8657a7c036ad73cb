// Package keyringstore keeps the logins of package oauth in a folder, sealed with a key that the
// keyring of the operating system has: the Keychain of macOS, the Credential Manager of Windows,
// and on Linux and the BSDs a Secret Service, for example of GNOME or KWallet.
//
//	store, err := keyringstore.New(ctx, folder, "Notes")
//	if err != nil {
//		return err
//	}
//	login, err := oauth.New(endpoint, &oauth.Options{Store: store})
//
// The keyring has a key of 32 bytes and no tokens. Windows takes 2560 bytes for an entry, and macOS
// about 3000 with its names, which a token of an identity provider can be longer than. The files
// have no limit, processes can lock them, and a record is replaced as a whole: see
// [oauth.FileStore], which New returns.
//
// # What it protects from
//
// Who reads the disk or a backup, and is not logged in as the person, cannot open the files. A
// program that the person runs can: most keyrings give entries to each program of their owner.
//
// # Logout
//
// oauth.Source.Logout removes the files of a login. The key stays, since other logins in the
// folder need it. Where the keyring has lost the key, a new one takes its place and people log in
// once more. The old files stay in the folder, and nobody can open them.
package keyringstore
