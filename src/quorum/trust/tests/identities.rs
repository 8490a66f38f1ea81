//! One server, one vote.

use super::super::Identities;

#[test]
fn one_server_speaks_through_one_address() {
    let mut identities = Identities::new(3);
    assert_eq!(identities.admit(1, "a"), Ok(()));
    assert_eq!(identities.admit(0, "a"), Err(1));
    assert_eq!(
        identities.admit(1, "a"),
        Ok(()),
        "a reconnect is no duplicate"
    );
    assert_eq!(identities.admit(2, "b"), Ok(()));
    assert_eq!(
        identities.admit(1, "c"),
        Ok(()),
        "another server answers there now"
    );
    assert_eq!(identities.admit(0, "a"), Ok(()));
}
