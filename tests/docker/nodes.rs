//! Nodes answer, stand still, and come back.

use redis::Value;

use crate::node::{Node, engine_answers};

fn token() -> Value {
    Value::BulkString(b"token".into())
}

#[tokio::test]
async fn a_paused_node_is_silent_and_then_goes_on() {
    if !engine_answers().await {
        return;
    }
    let node = Node::start().await;
    node.command(&["SET", "resource", "token"]).await.unwrap();
    node.pause().await;
    assert!(
        node.command(&["GET", "resource"])
            .await
            .unwrap_err()
            .is_timeout()
    );
    node.unpause().await;
    assert_eq!(node.command(&["GET", "resource"]).await.unwrap(), token());
}

#[tokio::test]
async fn a_stopped_node_refuses_and_comes_back_with_its_data() {
    if !engine_answers().await {
        return;
    }
    let node = Node::start().await;
    node.command(&["SET", "resource", "token"]).await.unwrap();
    node.stop().await;
    assert!(node.command(&["GET", "resource"]).await.is_err());
    node.start_again().await;
    assert_eq!(node.command(&["GET", "resource"]).await.unwrap(), token());
}
