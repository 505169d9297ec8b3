#pragma once
namespace api { class Client { public: void call(); }; }
