//! Connections under TLS, with a certificate authority of the user's own.

use std::fs;
use std::net::TcpListener;

use rcgen::{CertificateParams, IsCa, Issuer, KeyPair};
use redis::{Client, TlsCertificates};
use redlock_quorum::testkit::fleet::{Options, Server};

use crate::support::{builder, flavor, run};

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// A server that speaks TLS on a second port, and a client of it that trusts this authority.
    fn server(&self, directory: &std::path::Path) -> (Server, Client) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let directory = tempfile::tempdir_in(directory).unwrap().keep();
        let path = |name: &str, text: String| {
            let path = directory.join(name);
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let mut options = Options::new();
        for argument in [
            "--tls-auth-clients".to_owned(),
            "no".to_owned(),
            "--tls-cert-file".to_owned(),
            path("crt", certificate.pem()),
            "--tls-key-file".to_owned(),
            path("key", key.serialize_pem()),
        ] {
            options = options.argument(argument);
        }
        let server = Server::start(&flavor(), options).unwrap();
        let port = listen_under_tls(&server);
        let trust = TlsCertificates {
            client_tls: None,
            root_cert: Some(self.pem.clone().into_bytes()),
        };
        let client = Client::build_with_tls(format!("rediss://localhost:{port}"), trust).unwrap();
        (server, client)
    }
}

/// The server tries ports itself: what was free a moment ago may be another's.
fn listen_under_tls(server: &Server) -> u16 {
    let listens = |port: &u16| {
        let words = ["CONFIG", "SET", "tls-port", &port.to_string()];
        server.command(&words).is_ok()
    };
    let mut ports = std::iter::repeat_with(free_port).take(20);
    ports.find(listens).expect("some port is free")
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

#[test]
fn locks_are_taken_under_tls() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let nodes: Vec<(Server, Client)> =
            (0..3).map(|_| authority.server(directory.path())).collect();
        let redlock = nodes
            .iter()
            .fold(builder(Vec::<String>::new()), |builder, (_, client)| {
                builder.node_client(client.clone())
            })
            .build()
            .unwrap();
        let guard = redlock.acquire("resource").await.unwrap();
        assert!(
            redlock
                .try_acquire("resource")
                .await
                .unwrap_err()
                .is_contended()
        );
        assert!(!guard.release().await.unwrap().already_gone);
    });
}

#[test]
fn a_certificate_that_is_not_trusted_is_named() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let (server, _) = Authority::new().server(directory.path());
        let (_other, mistrusting) = Authority::new().server(directory.path());
        let port = server.command(&["CONFIG", "GET", "tls-port"]).unwrap();
        let port = redis::from_redis_value::<Vec<String>>(port).unwrap()[1].clone();
        // The trust of another authority, the address of this server.
        let info = mistrusting.get_connection_info().clone();
        let redis::ConnectionAddr::TcpTls {
            tls_params,
            insecure,
            ..
        } = info.addr().clone()
        else {
            panic!("a TLS address")
        };
        let addr = redis::ConnectionAddr::TcpTls {
            host: "localhost".into(),
            port: port.parse().unwrap(),
            insecure,
            tls_params,
        };
        let client = Client::open(info.set_addr(addr)).unwrap();
        let redlock = builder(Vec::<String>::new())
            .node_client(client)
            .build()
            .unwrap();
        let error = redlock.try_acquire("resource").await.unwrap_err();
        assert!(
            error.is_outage() && error.to_string().contains("certificate"),
            "{error}"
        );
    });
}
